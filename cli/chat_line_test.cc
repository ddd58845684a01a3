// Lines of a user become messages, and messages words or commands.
#include "cli/chat_line.h"

#include <string>

#include "common/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

TEST(MessageJoiner, ALineIsAMessage) {
  MessageJoiner joiner;
  EXPECT_TRUE(joiner.Add("Hello"));
  EXPECT_EQ(*joiner.Take(), "Hello");
  EXPECT_TRUE(joiner.Add("again"));
  EXPECT_EQ(*joiner.Take(), "again");
}

TEST(MessageJoiner, ABackslashAtTheEndGoesOnInTheNextLine) {
  MessageJoiner joiner;
  EXPECT_FALSE(joiner.Add("one\\"));
  EXPECT_TRUE(joiner.has_begun());
  EXPECT_FALSE(joiner.Add("\\"));
  EXPECT_TRUE(joiner.Add("a \\ b"));
  EXPECT_EQ(*joiner.Take(), "one\n\na \\ b");
  EXPECT_FALSE(joiner.has_begun());
}

TEST(MessageJoiner, ClearedLinesDoNotComeBack) {
  MessageJoiner joiner;
  EXPECT_FALSE(joiner.Add("one\\"));
  joiner.Clear();
  EXPECT_TRUE(joiner.Add("two"));
  EXPECT_EQ(*joiner.Take(), "two");
}

TEST(MessageJoiner, AMessageThatIsTooLongIsAnErrorOfItsWholeLength) {
  MessageJoiner joiner;
  EXPECT_TRUE(joiner.Add(std::string(kMaxPromptBytes, 'x')));
  EXPECT_EQ(joiner.Take()->size(), kMaxPromptBytes);
  EXPECT_FALSE(joiner.Add(std::string(kMaxPromptBytes, 'x') + "\\"));
  EXPECT_TRUE(joiner.Add("y"));
  const auto message = joiner.Take();
  EXPECT_THAT(std::string(message.status().message()), HasSubstr("1048578 bytes"));
  // Nobody knows how a line ended that was cut.
  EXPECT_TRUE(joiner.Add("beginning\\", kMaxPromptBytes + 1));
  EXPECT_FALSE(joiner.Take().ok());
  EXPECT_TRUE(joiner.Add("short"));
  EXPECT_EQ(*joiner.Take(), "short");
}

TEST(ChatLine, WordsGoToTheModelAsTheyAre) {
  for (const char* text : {"Hello", " two  spaces ", "a /help", "<|im_end|>"}) {
    const auto line = ReadChatLine(text);
    ASSERT_TRUE(line.ok());
    EXPECT_FALSE(line->command.has_value());
    EXPECT_EQ(line->text, text);
  }
  EXPECT_EQ(ReadChatLine(" /etc is what?")->text, "/etc is what?");
}

TEST(ChatLine, AMessageWithoutWordsIsNothing) {
  for (const char* text : {"", " ", "\n\t "}) EXPECT_EQ(ReadChatLine(text)->text, "");
}

TEST(ChatLine, ACommandHasWhatFollowsItsName) {
  EXPECT_EQ(ReadChatLine("/quit")->command, ChatCommand::kQuit);
  EXPECT_EQ(ReadChatLine("/exit")->command, ChatCommand::kQuit);
  EXPECT_EQ(ReadChatLine("/clear")->command, ChatCommand::kReset);
  const auto set = ReadChatLine("/set  temperature 0.8 ");
  EXPECT_EQ(set->command, ChatCommand::kSet);
  EXPECT_EQ(set->text, "temperature 0.8");
  EXPECT_EQ(ReadChatLine("/system\nBe brief.\nBe kind.")->text, "Be brief.\nBe kind.");
}

TEST(ChatLine, AnUnknownCommandIsOneLine) {
  for (const char* text : {"/", "/helpme", "/HELP", "/etc/passwd is what?\nTell me."}) {
    const auto line = ReadChatLine(text);
    ASSERT_FALSE(line.ok()) << text;
    EXPECT_THAT(std::string(line.status().message()), HasSubstr(" is no command: /help shows them"));
    EXPECT_EQ(line.status().message().find('\n'), std::string::npos);
  }
  EXPECT_LT(ReadChatLine("/" + std::string(1000, 'x')).status().message().size(), 200);
}

TEST(ChatLine, EveryCommandOfTheHelpIsOne) {
  size_t commands = 0;
  for (const char* word :
       {"/help", "/reset", "/system", "/set", "/show", "/retry", "/undo", "/save", "/load", "/stats", "/quit"}) {
    EXPECT_THAT(kChatHelp, HasSubstr(word));
    EXPECT_TRUE(ReadChatLine(word).ok()) << word;
    ++commands;
  }
  EXPECT_EQ(commands, static_cast<size_t>(ChatCommand::kQuit) + 1);
}

TEST(ChatLine, ASwitchIsOnOrOff) {
  EXPECT_EQ(ReadSwitch("on"), true);
  EXPECT_EQ(ReadSwitch("off"), false);
  EXPECT_EQ(ReadSwitch("yes"), std::nullopt);
}

}  // namespace
}  // namespace baton::cli
