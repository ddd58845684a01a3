#include "cli/chat_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::cli {
namespace {

// An error shows this much of what is no command.
constexpr size_t kMaxShownCommandBytes = 32;

constexpr std::array<std::pair<std::string_view, ChatCommand>, 13> kCommands = {{
    {"/help", ChatCommand::kHelp},
    {"/reset", ChatCommand::kReset},
    {"/clear", ChatCommand::kReset},
    {"/system", ChatCommand::kSystem},
    {"/set", ChatCommand::kSet},
    {"/show", ChatCommand::kShow},
    {"/retry", ChatCommand::kRetry},
    {"/undo", ChatCommand::kUndo},
    {"/save", ChatCommand::kSave},
    {"/load", ChatCommand::kLoad},
    {"/stats", ChatCommand::kStats},
    {"/quit", ChatCommand::kQuit},
    {"/exit", ChatCommand::kQuit},
}};

}  // namespace

const char kChatHelp[] =
    "/help             shows this\n"
    "/reset            forgets the chat so far, but not the system message and the settings\n"
    "/system TEXT      sets the system message; without TEXT there is none\n"
    "/set NAME VALUE   sets temperature, top_p, top_k, max_tokens, seed, ...; without NAME it lists them\n"
    "/show             shows the settings and the chat\n"
    "/retry            asks the last question again\n"
    "/undo             takes the last question and its answer back\n"
    "/save FILE        writes the chat to a file, /load FILE reads it\n"
    "/stats on|off     shows tokens and times after each answer\n"
    "/quit             ends the chat, as Ctrl-D does\n"
    "Ctrl-C stops an answer, and at the prompt clears the line. A line that ends in \\ goes on in the next one.\n"
    "To send a line that begins with a slash, put a space before it.\n";

bool MessageJoiner::Add(std::string_view line, size_t bytes) {
  const bool goes_on = line.size() == bytes && absl::EndsWith(ToAbsl(line), "\\");
  if (goes_on) line.remove_suffix(1);
  if (has_begun_) message_ += '\n';
  bytes_ += bytes - (goes_on ? 1 : 0) + (has_begun_ ? 1 : 0);
  has_begun_ = true;
  const size_t room = kMaxPromptBytes - std::min(kMaxPromptBytes, message_.size());
  message_ += line.substr(0, room);
  return !goes_on;
}

absl::StatusOr<std::string> MessageJoiner::Take() {
  std::string message = std::move(message_);
  const size_t bytes = bytes_;
  Clear();
  if (bytes <= kMaxPromptBytes) return message;
  return absl::InvalidArgumentError(
      absl::StrCat("the message has ", bytes, " bytes; a chat may have ", kMaxPromptBytes));
}

void MessageJoiner::Clear() {
  message_.clear();
  bytes_ = 0;
  has_begun_ = false;
}

absl::StatusOr<ChatLine> ReadChatLine(std::string message) {
  if (absl::StartsWith(message, " /")) return ChatLine{.text = message.substr(1)};
  if (!absl::StartsWith(message, "/")) {
    const bool has_words = !absl::StripAsciiWhitespace(message).empty();
    return ChatLine{.text = has_words ? std::move(message) : ""};
  }
  const size_t end = std::min(message.find_first_of(" \t\n"), message.size());
  const std::string name = message.substr(0, end);
  for (const auto& [known, command] : kCommands) {
    if (name != known) continue;
    return ChatLine{.command = command, .text = std::string(absl::StripAsciiWhitespace(message.substr(end)))};
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name.substr(0, kMaxShownCommandBytes),
                   " is no command: /help shows them; a space before the slash sends the line to the model"));
}

std::optional<bool> ReadSwitch(std::string_view text) {
  if (text == "on") return true;
  if (text == "off") return false;
  return std::nullopt;
}

}  // namespace baton::cli
