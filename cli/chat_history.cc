#include "cli/chat_history.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace baton::cli {
namespace {

using HistoryJson = nlohmann::ordered_json;

// An error shows this much of a role.
constexpr size_t kMaxShownRoleBytes = 32;

struct HistoryMessage {
  std::string role;
  std::string content;
  AnswerEnd end = AnswerEnd::kWhole;
};

absl::StatusOr<HistoryMessage> ReadHistoryMessage(const HistoryJson& json) {
  const auto text = [&json](const char* key) {
    const auto value = json.find(key);
    return value != json.end() && value->is_string() ? value->get<std::string>() : std::string();
  };
  if (!json.is_object() || !json.contains("content") || !json["content"].is_string()) {
    return absl::InvalidArgumentError("expected a JSON list of {\"role\": ..., \"content\": ...}");
  }
  HistoryMessage message = {.role = text("role"), .content = text("content")};
  for (const AnswerEnd end : {AnswerEnd::kStopped, AnswerEnd::kBroken}) {
    if (text("ended") == AnswerEndName(end)) message.end = end;
  }
  return message;
}

// Whether the message may come where `history` ends.
bool AddToHistory(HistoryMessage message, ChatHistory& history) {
  const bool is_first = history.system.empty() && history.turns.empty() && history.unanswered.empty();
  if (message.role == "system") {
    history.system = std::move(message.content);
    return is_first;
  }
  if (message.role == "user") {
    const bool is_turn = history.unanswered.empty() && !message.content.empty();
    history.unanswered = std::move(message.content);
    return is_turn;
  }
  if (message.role != "assistant" || history.unanswered.empty()) return false;
  history.turns.push_back({std::exchange(history.unanswered, ""), std::move(message.content), message.end});
  return true;
}

HistoryJson MessageJson(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

}  // namespace

std::string_view AnswerEndName(AnswerEnd end) {
  return end == AnswerEnd::kStopped ? "stopped" : end == AnswerEnd::kBroken ? "broken off" : "";
}

std::string WriteChat(const ChatHistory& history) {
  HistoryJson json = HistoryJson::array();
  if (!history.system.empty()) json.push_back(MessageJson("system", history.system));
  for (const ChatTurn& turn : history.turns) {
    json.push_back(MessageJson("user", turn.question));
    json.push_back(MessageJson("assistant", turn.answer));
    if (turn.end != AnswerEnd::kWhole) json.back()["ended"] = AnswerEndName(turn.end);
  }
  if (!history.unanswered.empty()) json.push_back(MessageJson("user", history.unanswered));
  return absl::StrCat(json.dump(/*indent=*/1, ' ', /*ensure_ascii=*/false, HistoryJson::error_handler_t::replace),
                      "\n");
}

absl::StatusOr<ChatHistory> ReadChat(std::string_view text) {
  const HistoryJson json = HistoryJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return absl::InvalidArgumentError("expected a JSON list of {\"role\": ..., \"content\": ...}");
  ChatHistory history;
  for (size_t i = 0; i < json.size(); ++i) {
    auto message = ReadHistoryMessage(json[i]);
    if (!message.ok()) return absl::InvalidArgumentError(absl::StrCat("message ", i, ": ", message.status().message()));
    const std::string role = message->role.substr(0, kMaxShownRoleBytes);
    if (!AddToHistory(*std::move(message), history)) {
      return absl::InvalidArgumentError(
          absl::StrCat("message ", i, ": a message of role \"", role,
                       "\" may not come there: one of role system may be the first, then those of user and assistant "
                       "take turns"));
    }
  }
  return history;
}

}  // namespace baton::cli
