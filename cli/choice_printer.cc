#include "cli/choice_printer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::cli {

ChoicePrinter::ChoicePrinter(int choices, bool filters) : filters_(filters), choices_(static_cast<size_t>(choices)) {}

std::string ChoicePrinter::Add(const v1::Output& output) {
  Choice& of = choices_.at(static_cast<size_t>(output.choice()));
  absl::StrAppend(&of.waiting, output.prompt().text(), output.text());
  of.has_ended = output.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
  std::string text;
  for (; current_ < choices_.size(); ++current_) {
    Choice& choice = choices_[current_];
    text += Print(choice, current_);
    if (!choice.has_ended) break;
    text += filter_.Flush();
  }
  return text;
}

std::string ChoicePrinter::Print(Choice& choice, size_t index) {
  std::string text;
  if (choices_.size() > 1 && !std::exchange(choice.has_begun, true)) {
    text = absl::StrCat(index == 0 ? "" : "\n", "--- choice ", index, " ---\n");
  }
  const std::string waiting = std::exchange(choice.waiting, {});
  return text + (filters_ ? filter_.Push(waiting) : waiting);
}

std::string ChoicePrinter::Flush() { return filter_.Flush(); }

}  // namespace baton::cli
