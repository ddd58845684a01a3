#include "cli/chat_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/chat_settings.h"
#include "cli/utf8_check.h"
#include "common/check.h"
#include "common/limits.h"
#include "common/status.h"

namespace baton::cli {
namespace {

absl::Status CheckChatText(const std::string& text) {
  if (text.size() > kMaxPromptBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message has ", text.size(), " bytes; a chat may have ", kMaxPromptBytes));
  }
  return CheckUtf8(text);
}

void AddMessage(const char* role, const std::string& content, v1::ChatPrompt& chat) {
  v1::ChatMessage* message = chat.add_messages();
  message->set_role(role);
  message->set_content(content);
}

size_t TurnBytes(const ChatTurn& turn) { return turn.question.size() + turn.answer.size(); }

}  // namespace

ChatSession::ChatSession(v1::GenerateRequest base) : base_(std::move(base)) {}

absl::Status ChatSession::Ask(std::string question) {
  BATON_CHECK(!asking_.has_value());
  if (question.empty()) return absl::InvalidArgumentError("there is nothing to ask");
  BATON_RETURN_IF_ERROR(CheckChatText(question));
  asking_ = Asking{.question = std::move(question), .first_turn = left_out_, .end_turn = history_.turns.size()};
  return absl::OkStatus();
}

absl::Status ChatSession::Retry() {
  BATON_CHECK(!asking_.has_value());
  const size_t turns = history_.turns.size();
  if (!history_.unanswered.empty()) {
    asking_ = Asking{.question = history_.unanswered, .first_turn = left_out_, .end_turn = turns};
    return absl::OkStatus();
  }
  if (turns == 0) return absl::FailedPreconditionError("there is no question to ask again");
  asking_ = Asking{
      .question = history_.turns.back().question, .first_turn = std::min(left_out_, turns - 1), .end_turn = turns - 1};
  return absl::OkStatus();
}

absl::Status ChatSession::Trim(const Fits& fits) {
  BATON_CHECK(asking_.has_value());
  const auto fits_from = [this, &fits](size_t first_turn) -> absl::StatusOr<bool> {
    const v1::ChatPrompt chat = PromptFrom(first_turn);
    if (!IsWithinLimits(chat)) return false;
    return fits(chat);
  };
  // It fits from `fitting` on, and not from `low` - 1 on. What fits is most often the whole of it.
  size_t low = asking_->first_turn;
  size_t fitting = asking_->end_turn;
  for (size_t middle = low; low < fitting; middle = low + (fitting - low) / 2) {
    BATON_ASSIGN_OR_RETURN(const bool is_fitting, fits_from(middle));
    if (is_fitting) {
      fitting = middle;
    } else {
      low = middle + 1;
    }
  }
  asking_->first_turn = fitting;
  return absl::OkStatus();
}

v1::GenerateRequest ChatSession::Request() const {
  BATON_CHECK(asking_.has_value());
  v1::GenerateRequest request = base_;
  *request.mutable_chat() = PromptFrom(asking_->first_turn);
  return request;
}

bool ChatSession::OnAnswer(std::string answer, AnswerEnd end) {
  BATON_CHECK(asking_.has_value());
  history_.turns.resize(asking_->end_turn);
  history_.turns.push_back({std::move(asking_->question), std::move(answer), end});
  history_.unanswered.clear();
  left_out_ = asking_->first_turn;
  asking_.reset();
  const bool says_left_out = left_out_ > 0 && !has_said_left_out_;
  has_said_left_out_ = has_said_left_out_ || says_left_out;
  BoundHistory();
  return says_left_out;
}

void ChatSession::OnFailure() {
  BATON_CHECK(asking_.has_value());
  // A retried turn is still there: it is asked again if the user says so again.
  if (asking_->end_turn == history_.turns.size()) history_.unanswered = std::move(asking_->question);
  asking_.reset();
}

absl::StatusOr<std::string> ChatSession::Undo() {
  if (!history_.unanswered.empty()) return std::exchange(history_.unanswered, "");
  if (history_.turns.empty()) return absl::FailedPreconditionError("there is nothing to undo");
  std::string question = std::move(history_.turns.back().question);
  history_.turns.pop_back();
  left_out_ = std::min(left_out_, history_.turns.size());
  return question;
}

void ChatSession::Reset() { Load({.system = std::move(history_.system)}); }

absl::Status ChatSession::SetSystem(std::string system) {
  BATON_RETURN_IF_ERROR(CheckChatText(system));
  history_.system = std::move(system);
  return absl::OkStatus();
}

void ChatSession::Load(ChatHistory history) {
  history_ = std::move(history);
  left_out_ = 0;
  has_said_left_out_ = false;
  BoundHistory();
}

v1::ChatPrompt ChatSession::PromptFrom(size_t first_turn) const {
  v1::ChatPrompt chat;
  if (!history_.system.empty()) AddMessage("system", history_.system, chat);
  for (size_t i = first_turn; i < asking_->end_turn; ++i) {
    AddMessage("user", history_.turns[i].question, chat);
    AddMessage("assistant", history_.turns[i].answer, chat);
  }
  AddMessage("user", asking_->question, chat);
  return chat;
}

bool ChatSession::IsWithinLimits(const v1::ChatPrompt& chat) {
  size_t bytes = 0;
  for (const v1::ChatMessage& message : chat.messages()) bytes += message.role().size() + message.content().size();
  return bytes <= kMaxPromptBytes && chat.messages_size() <= kMaxChatMessages;
}

void ChatSession::BoundHistory() {
  size_t bytes = 0;
  for (const ChatTurn& turn : history_.turns) bytes += TurnBytes(turn);
  size_t dropped = 0;
  while (history_.turns.size() - dropped > kMaxKeptTurns || (bytes > kMaxKeptTurnBytes && dropped < left_out_)) {
    bytes -= TurnBytes(history_.turns[dropped++]);
  }
  history_.turns.erase(history_.turns.begin(), history_.turns.begin() + static_cast<std::ptrdiff_t>(dropped));
  left_out_ -= std::min(left_out_, dropped);
}

std::string ShowChat(const ChatSession& session) {
  const ChatHistory& history = session.history();
  std::string text = ShowSampling(session.base().sampling());
  if (!history.system.empty()) absl::StrAppend(&text, "system: ", history.system, "\n");
  for (size_t i = 0; i < history.turns.size(); ++i) {
    const ChatTurn& turn = history.turns[i];
    const char* const mark = i < session.left_out() ? " (left out)" : "";
    absl::StrAppend(&text, "user", mark, ": ", turn.question, "\nassistant", mark, ": ", turn.answer);
    if (turn.end != AnswerEnd::kWhole) absl::StrAppend(&text, " (", ToAbsl(AnswerEndName(turn.end)), ")");
    absl::StrAppend(&text, "\n");
  }
  if (!history.unanswered.empty()) absl::StrAppend(&text, "user (not answered): ", history.unanswered, "\n");
  return text;
}

}  // namespace baton::cli
