#include "cli/choice_printer.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

v1::Output Text(int choice, const std::string& text, bool ends = false) {
  v1::Output output;
  output.set_choice(choice);
  output.set_text(text);
  if (ends) output.set_finish_reason(v1::FINISH_REASON_LENGTH);
  return output;
}

TEST(ChoicePrinterTest, OneChoiceIsPrintedAsItComesWithoutALineAboveIt) {
  ChoicePrinter printer(1, /*filters=*/false);
  EXPECT_EQ(printer.Add(Text(0, "one ")), "one ");
  EXPECT_EQ(printer.Add(Text(0, "two")), "two");
  EXPECT_EQ(printer.Flush(), "");
}

TEST(ChoicePrinterTest, AnEchoedPromptComesBeforeTheOutput) {
  ChoicePrinter printer(1, /*filters=*/false);
  v1::Output output = Text(0, " upon");
  output.mutable_prompt()->set_text("Once");
  EXPECT_EQ(printer.Add(output), "Once upon");
}

TEST(ChoicePrinterTest, AChoiceWaitsUntilThoseBeforeItHaveEnded) {
  ChoicePrinter printer(3, /*filters=*/false);
  EXPECT_EQ(printer.Add(Text(2, "c", /*ends=*/true)), "--- choice 0 ---\n");
  EXPECT_EQ(printer.Add(Text(0, "a")), "a");
  EXPECT_EQ(printer.Add(Text(1, "b1 ")), "");
  EXPECT_EQ(printer.Add(Text(0, "!", /*ends=*/true)), "!\n--- choice 1 ---\nb1 ");
  EXPECT_EQ(printer.Add(Text(1, "b2", /*ends=*/true)), "b2\n--- choice 2 ---\nc");
}

TEST(ChoicePrinterTest, HalfACharacterOfOneChoiceDoesNotReachTheNext) {
  ChoicePrinter printer(2, /*filters=*/true);
  EXPECT_EQ(printer.Add(Text(0, "\xC3", /*ends=*/true)), "--- choice 0 ---\n\xEF\xBF\xBD\n--- choice 1 ---\n");
  EXPECT_EQ(printer.Add(Text(1, "\x1b[2J", /*ends=*/true)), "\xEF\xBF\xBD[2J");
}

}  // namespace
}  // namespace baton::cli
