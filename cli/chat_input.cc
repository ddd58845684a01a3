#include "cli/chat_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/limits.h"

namespace baton::cli {
namespace {

constexpr char kPrompt[] = "> ";
// It stands before a line that goes on with the one before.
constexpr char kMorePrompt[] = "| ";
constexpr char kHowToEnd[] = "Ctrl-D or /quit ends the chat.\n";
constexpr char kClearedHint[] = "\nCtrl-D or /quit ends the chat.\n> ";
constexpr size_t kInputReadBytes = 1 << 16;

}  // namespace

bool BoundedLines::Fill() {
  buffer_.resize(kInputReadBytes);
  at_ = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(file_, buffer_.data(), buffer_.size());
  } while (bytes < 0 && errno == EINTR);
  buffer_.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return bytes > 0;
}

std::optional<BoundedLines::Line> BoundedLines::Next() {
  Line line;
  bool has_begun = false;
  while (at_ < buffer_.size() || Fill()) {
    has_begun = true;
    const size_t end = buffer_.find('\n', at_);
    const size_t bytes = std::min(end, buffer_.size()) - at_;
    line.text.append(buffer_, at_, std::min(bytes, kMaxPromptBytes - line.text.size()));
    line.bytes += bytes;
    at_ += bytes;
    if (end == std::string::npos) continue;
    ++at_;
    return line;
  }
  if (!has_begun) return std::nullopt;
  return line;
}

ChatInput::ChatInput(ChatInterrupts* interrupts)
    : interrupts_(interrupts), editor_(interrupts == nullptr ? nullptr : LineEditor::Create()), lines_(STDIN_FILENO) {
  if (interrupts != nullptr && editor_ == nullptr) interrupts->SetPromptHint(kClearedHint);
}

absl::StatusOr<std::string> ChatInput::Next() {
  joiner_.Clear();
  return editor_ == nullptr ? NextPlain() : NextEdited();
}

absl::StatusOr<std::string> ChatInput::NextEdited() {
  while (true) {
    const EditedLine line = editor_->Read(joiner_.has_begun() ? kMorePrompt : kPrompt);
    if (line.end == LineEnd::kEnd) return absl::OutOfRangeError("the chat ends");
    if (line.end == LineEnd::kInterrupted) {
      joiner_.Clear();
      if (!std::exchange(has_hinted_, true)) std::fputs(kHowToEnd, stderr);
      continue;
    }
    if (!joiner_.Add(line.text)) continue;
    absl::StatusOr<std::string> message = joiner_.Take();
    if (message.ok() && !message->empty()) editor_->Remember(*message);
    return message;
  }
}

absl::StatusOr<std::string> ChatInput::NextPlain() {
  while (true) {
    if (interrupts_ != nullptr) std::fputs(joiner_.has_begun() ? kMorePrompt : kPrompt, stderr);
    const std::optional<BoundedLines::Line> line = lines_.Next();
    if (interrupts_ != nullptr && interrupts_->TakeCleared()) joiner_.Clear();
    if (!line.has_value()) {
      if (interrupts_ != nullptr) std::fputs("\n", stderr);
      // The last line of a file may end in a backslash.
      if (joiner_.has_begun()) return joiner_.Take();
      return absl::OutOfRangeError("the chat ends");
    }
    if (joiner_.Add(line->text, line->bytes)) return joiner_.Take();
  }
}

}  // namespace baton::cli
