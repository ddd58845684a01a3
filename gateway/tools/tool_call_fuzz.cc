// Parses arbitrary answers in UTF-8, which is what a detokenizer gives; the first byte says how calls are looked for.
// However an answer is cut, it must give the same text and the same calls, each of a tool that there is; a call that is
// not sent while it comes has arguments that are a JSON object, and an answer without tools is its own text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "common/random.h"
#include "common/utf8.h"
#include "gateway/testing/answer_pieces.h"
#include "gateway/tools/tool_call_parser.h"
#include "nlohmann/json.hpp"

namespace {

using baton::gateway::AnswerPiece;
using baton::gateway::AnswerPieces;
using baton::gateway::AppendJoined;
using baton::gateway::CallForm;
using baton::gateway::ToolCallParser;
using baton::gateway::ToolReading;

// Cuts the text at random into chunks of at most so many bytes.
AnswerPieces Parse(const ToolReading& reading, bool is_stream, std::string_view text, size_t most,
                   baton::RandomSource& random) {
  ToolCallParser parser(reading, is_stream);
  AnswerPieces pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = 1 + random.Below(most);
    AppendJoined(parser.Add(text.substr(at, bytes)), pieces);
    at += bytes;
  }
  AppendJoined(parser.End(), pieces);
  return pieces;
}

void Check(const ToolReading& reading, bool is_stream, std::string_view text, const AnswerPieces& pieces) {
  std::string shown;
  for (const AnswerPiece& piece : pieces) {
    if (piece.kind == AnswerPiece::Kind::kText) shown += piece.text;
    if (piece.kind == AnswerPiece::Kind::kCall) {
      BATON_CHECK(std::find(reading.names.begin(), reading.names.end(), piece.text) != reading.names.end());
    }
    if (piece.kind == AnswerPiece::Kind::kArguments && !is_stream && reading.form != CallForm::kOneCall) {
      BATON_CHECK(nlohmann::json::parse(piece.text, nullptr, /*allow_exceptions=*/false).is_object()) << piece.text;
    }
  }
  if (reading.form == CallForm::kNone) BATON_CHECK(shown == text) << shown;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  // The digits '0' to '7' in the corpus are four forms, each whole and as a stream.
  const int how = (data[0] - '0') & 7;
  const ToolReading reading = {
      .form = static_cast<CallForm>(how & 3), .names = {"weather", "time"}, .takes_several = bytes % 2 == 0};
  const bool is_stream = how >= 4;
  const std::string text = baton::DecodeUtf8Lossy({reinterpret_cast<const char*>(data) + 1, bytes - 1});
  baton::SeededRandom random(bytes);
  const AnswerPieces whole = Parse(reading, is_stream, text, text.size() + 1, random);
  Check(reading, is_stream, text, whole);
  BATON_CHECK(Parse(reading, is_stream, text, 1, random) == whole);
  BATON_CHECK(Parse(reading, is_stream, text, 9, random) == whole);
  return 0;
}
