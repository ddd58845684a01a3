#include "gateway/tools/responses_output.h"

#include "absl/strings/str_cat.h"
#include "gateway/json_writing.h"

namespace baton::gateway {

void ResponsesEvents::Add(const char* type, const std::string& members) {
  absl::StrAppend(&events_, "event: ", type, "\ndata: {\"type\":\"", type, R"(","sequence_number":)", next_number_++,
                  members, "}\n\n");
}

std::string ResponsesOutput::ItemId() const {
  if (open_ == Item::kCall) return absl::StrCat("fc_", id_, "_", call_);
  return absl::StrCat("msg_", id_, messages_ > 1 ? absl::StrCat("_", messages_ - 1) : "");
}

std::string ResponsesOutput::Place() const {
  return absl::StrCat(R"(,"item_id":")", ItemId(), R"(","output_index":)", index_,
                      open_ == Item::kMessage ? R"(,"content_index":0)" : "");
}

std::string ResponsesOutput::Part() const {
  return absl::StrCat(R"({"type":"output_text","annotations":[],"logprobs":[)", logprobs_, R"(],"text":)",
                      JsonString(text_), "}");
}

std::string ResponsesOutput::MessageItem(const char* status, const std::string& content) const {
  return absl::StrCat(R"({"id":")", ItemId(), R"(","type":"message","status":")", status,
                      R"(","role":"assistant","content":[)", content, "]}");
}

std::string ResponsesOutput::CallItem(const char* status) const {
  return absl::StrCat(R"({"id":")", ItemId(), R"(","type":"function_call","status":")", status, R"(","call_id":"call_)",
                      id_, "_", call_, R"(","name":)", JsonString(name_), R"(,"arguments":)", JsonString(arguments_),
                      "}");
}

std::string ResponsesOutput::OpenItem(const char* status) const {
  return open_ == Item::kCall ? CallItem(status) : MessageItem(status, Part());
}

std::string ResponsesOutput::Items(const char* status) const {
  if (open_ == Item::kNone) return done_;
  return absl::StrCat(done_, done_.empty() ? "" : ",", OpenItem(status));
}

void ResponsesOutput::OpenMessage() {
  Close("completed");
  open_ = Item::kMessage;
  ++index_;
  ++messages_;
  text_.clear();
  logprobs_.clear();
  events_.Add("response.output_item.added",
              absl::StrCat(R"(,"output_index":)", index_, R"(,"item":)", MessageItem("in_progress", "")));
  events_.Add("response.content_part.added", absl::StrCat(Place(), R"(,"part":)", Part()));
}

void ResponsesOutput::OpenCall(const AnswerPiece& piece) {
  Close("completed");
  open_ = Item::kCall;
  ++index_;
  call_ = piece.call;
  name_ = piece.text;
  arguments_.clear();
  events_.Add("response.output_item.added",
              absl::StrCat(R"(,"output_index":)", index_, R"(,"item":)", CallItem("in_progress")));
}

void ResponsesOutput::Close(const char* status) {
  if (open_ == Item::kMessage) CloseMessage(status);
  if (open_ == Item::kCall) CloseCall(status);
  if (open_ != Item::kNone) absl::StrAppend(&done_, done_.empty() ? "" : ",", OpenItem(status));
  open_ = Item::kNone;
}

void ResponsesOutput::CloseMessage(const char* status) {
  events_.Add("response.output_text.done",
              absl::StrCat(Place(), R"(,"text":)", JsonString(text_), R"(,"logprobs":[)", logprobs_, "]"));
  events_.Add("response.content_part.done", absl::StrCat(Place(), R"(,"part":)", Part()));
  events_.Add("response.output_item.done",
              absl::StrCat(R"(,"output_index":)", index_, R"(,"item":)", OpenItem(status)));
}

void ResponsesOutput::CloseCall(const char* status) {
  events_.Add("response.function_call_arguments.done",
              absl::StrCat(Place(), R"(,"name":)", JsonString(name_), R"(,"arguments":)", JsonString(arguments_)));
  events_.Add("response.output_item.done",
              absl::StrCat(R"(,"output_index":)", index_, R"(,"item":)", OpenItem(status)));
}

void ResponsesOutput::AddText(const std::string& text, const std::string& logprobs) {
  if (open_ != Item::kMessage) OpenMessage();
  text_ += text;
  absl::StrAppend(&logprobs_, logprobs_.empty() || logprobs.empty() ? "" : ",", logprobs);
  events_.Add("response.output_text.delta",
              absl::StrCat(Place(), R"(,"delta":)", JsonString(text), R"(,"logprobs":[)", logprobs, "]"));
}

void ResponsesOutput::AddPieces(const AnswerPieces& pieces) {
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case AnswerPiece::Kind::kText:
        AddText(piece.text, "");
        break;
      case AnswerPiece::Kind::kCall:
        OpenCall(piece);
        break;
      case AnswerPiece::Kind::kArguments:
        arguments_ += piece.text;
        events_.Add("response.function_call_arguments.delta",
                    absl::StrCat(Place(), R"(,"delta":)", JsonString(piece.text)));
        break;
    }
  }
}

void ResponsesOutput::Add(std::string_view text, const std::string& logprobs) {
  if (has_tools_) return AddPieces(parser_.Add(text));
  // Tokens without a text, which half a character is, change nothing that a client sees but their log-probabilities.
  if (!text.empty() || !logprobs.empty()) AddText(std::string(text), logprobs);
}

void ResponsesOutput::End(const char* status) {
  AddPieces(parser_.End());
  if (index_ < 0) OpenMessage();
  Close(status);
}

}  // namespace baton::gateway
