#include "gateway/tools/anthropic_calls.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "gateway/json_writing.h"
#include "nlohmann/json.hpp"

namespace baton::gateway {

std::string AnthropicEvent(const char* type, const std::string& data) {
  return absl::StrCat("event: ", type, "\ndata: ", data, "\n\n");
}

std::string AnthropicContent::CallMembers(const AnswerPiece& piece) const {
  return absl::StrCat(R"({"type":"tool_use","id":"toolu_)", id_, "_", piece.call, R"(","name":)",
                      JsonString(piece.text));
}

std::string AnthropicContent::Open(Block kind, const std::string& block) {
  std::string events = Close();
  open_ = kind;
  ++index_;
  return events + AnthropicEvent("content_block_start", absl::StrCat(R"({"type":"content_block_start","index":)",
                                                                     index_, R"(,"content_block":)", block, "}"));
}

std::string AnthropicContent::Close() {
  if (std::exchange(open_, Block::kNone) == Block::kNone) return {};
  return AnthropicEvent("content_block_stop", absl::StrCat(R"({"type":"content_block_stop","index":)", index_, "}"));
}

std::string AnthropicContent::DeltaEvent(const char* members, const std::string& text) const {
  return AnthropicEvent("content_block_delta", absl::StrCat(R"({"type":"content_block_delta","index":)", index_,
                                                            R"(,"delta":{)", members, JsonString(text), "}}"));
}

std::string AnthropicContent::Events(const AnswerPieces& pieces) {
  std::string events;
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case AnswerPiece::Kind::kText:
        if (open_ != Block::kText) events += OpenText();
        events += DeltaEvent(R"("type":"text_delta","text":)", piece.text);
        break;
      case AnswerPiece::Kind::kCall:
        events += Open(Block::kCall, CallMembers(piece) + R"(,"input":{}})");
        break;
      case AnswerPiece::Kind::kArguments:
        events += DeltaEvent(R"("type":"input_json_delta","partial_json":)", piece.text);
        break;
    }
  }
  return events;
}

std::string AnthropicContent::End() {
  std::string events = Events(parser_.End());
  if (index_ < 0) events += OpenText();
  return events + Close();
}

std::string AnthropicContent::Blocks(std::string_view text) {
  AnswerPieces pieces = parser_.Add(text);
  AnswerPieces rest = parser_.End();
  pieces.insert(pieces.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  if (pieces.empty()) pieces.push_back({.text = ""});
  std::string blocks;
  for (size_t i = 0; i < pieces.size(); ++i) {
    absl::StrAppend(&blocks, blocks.empty() ? "" : ",");
    if (pieces[i].kind == AnswerPiece::Kind::kCall) {
      absl::StrAppend(&blocks, CallMembers(pieces[i]));
      const bool has_input = i + 1 < pieces.size() && pieces[i + 1].kind == AnswerPiece::Kind::kArguments;
      const std::string input = has_input ? pieces[++i].text : "";
      absl::StrAppend(&blocks, R"(,"input":)", nlohmann::json::accept(input) ? input : "{}", "}");
      continue;
    }
    std::string words = std::move(pieces[i].text);
    while (i + 1 < pieces.size() && pieces[i + 1].kind == AnswerPiece::Kind::kText) words += pieces[++i].text;
    absl::StrAppend(&blocks, R"({"type":"text","text":)", JsonString(words), "}");
  }
  return blocks;
}

}  // namespace baton::gateway
