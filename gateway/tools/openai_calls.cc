#include "gateway/tools/openai_calls.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "gateway/json_writing.h"

namespace baton::gateway {
namespace {

std::string TextOfPieces(const AnswerPieces& pieces) {
  std::string text;
  for (const AnswerPiece& piece : pieces) {
    if (piece.kind == AnswerPiece::Kind::kText) text += piece.text;
  }
  return text;
}

}  // namespace

std::string OpenAiCalls::Calls(const AnswerPieces& pieces, bool is_delta) const {
  std::string calls;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind == AnswerPiece::Kind::kText) continue;
    const bool begins = pieces[i].kind == AnswerPiece::Kind::kCall;
    const int call = pieces[i].call;
    absl::StrAppend(&calls, calls.empty() ? "{" : ",{", is_delta ? absl::StrCat(R"("index":)", call, ",") : "");
    if (begins) absl::StrAppend(&calls, R"("id":"call_)", id_, "_", call, R"(","type":"function",)");
    absl::StrAppend(&calls, R"("function":{)",
                    begins ? absl::StrCat(R"("name":)", JsonString(pieces[i].text), ",") : "", R"("arguments":)");
    // Its arguments are the next piece, where there are any yet.
    const bool has_more = begins && i + 1 < pieces.size() && pieces[i + 1].kind == AnswerPiece::Kind::kArguments;
    if (has_more) ++i;
    absl::StrAppend(&calls, begins && !has_more ? R"("")" : JsonString(pieces[i].text), "}}");
  }
  return calls;
}

std::string OpenAiCalls::DeltaMembers(const AnswerPieces& pieces) const {
  const std::string text = TextOfPieces(pieces);
  const std::string calls = Calls(pieces, /*is_delta=*/true);
  std::string members;
  if (!text.empty()) absl::StrAppend(&members, R"("content":)", JsonString(text));
  if (!calls.empty()) absl::StrAppend(&members, members.empty() ? "" : ",", R"("tool_calls":[)", calls, "]");
  return members;
}

std::string OpenAiCalls::Message(std::string_view text) {
  AnswerPieces pieces = parser_.Add(text);
  AnswerPieces rest = parser_.End();
  pieces.insert(pieces.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  const std::string content = TextOfPieces(pieces);
  const std::string calls = Calls(pieces, /*is_delta=*/false);
  const bool is_null = content.empty() && !calls.empty();
  return absl::StrCat(R"("content":)", is_null ? "null" : JsonString(content),
                      calls.empty() ? "" : absl::StrCat(R"(,"tool_calls":[)", calls, "]"));
}

}  // namespace baton::gateway
