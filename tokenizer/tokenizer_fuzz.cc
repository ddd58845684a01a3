// libFuzzer over text and ids. A text that encodes must decode to itself, and the pieces of a stream must add up to the
// whole. Byte 0 chooses the tokenizer and the options. The rest is used as text, and then each of its bytes as an id.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/check.h"
#include "common/status.h"
#include "common/utf8.h"
#include "tokenizer/stop_matcher.h"
#include "tokenizer/stream_detokenizer.h"
#include "tokenizer/testing/tiny_spec.h"
#include "tokenizer/tokenizer.h"

namespace baton::tokenizer {
namespace {

const Tokenizer& Make(const modelfile::TokenizerSpec& spec) {
  auto created = Tokenizer::Create(spec);
  BATON_CHECK(created.ok()) << created.status();
  return *created->release();
}

void CheckDecoding(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  const auto whole = tokenizer.Decode(ids, skip_special);
  BATON_CHECK(whole.ok()) << whole.status();
  BATON_CHECK(baton::IsValidUtf8(*whole));
  StreamDetokenizer stream(tokenizer, skip_special);
  std::string streamed;
  for (const int32_t id : ids) {
    const auto piece = stream.Push(id);
    BATON_CHECK(piece.ok()) << piece.status();
    BATON_CHECK(baton::IsValidUtf8(*piece));
    BATON_CHECK(stream.pending_bytes() <= ByteRunDecoder::kMaxHeldRunBytes);
    streamed += *piece;
  }
  streamed += stream.Flush();
  BATON_CHECK(streamed == *whole);
}

// A SentencePiece-style tokenizer reads a written space in the text as a space.
std::string AsDecoded(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.is_byte_level() ? std::string(text)
                                   : absl::StrReplaceAll(ToAbsl(text), {{ToAbsl(kWrittenSpace), " "}});
}

void CheckEncoding(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  const auto ids = tokenizer.Encode(text, options);
  BATON_CHECK(ids.ok() == baton::IsValidUtf8(text)) << ids.status();
  if (!ids.ok()) return;
  const auto decoded = tokenizer.Decode(*ids, /*skip_special=*/false);
  BATON_CHECK(decoded.ok()) << decoded.status();
  const std::string bos = options.add_bos ? tokenizer.TokenText(tokenizer.bos_id()) : "";
  BATON_CHECK(*decoded == bos + AsDecoded(tokenizer, text));
  CheckDecoding(tokenizer, *ids, /*skip_special=*/true);
}

}  // namespace
}  // namespace baton::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace baton::tokenizer;  // NOLINT: one function
  static const Tokenizer& byte_level = Make(TinySpec());
  static const Tokenizer& pieces = Make(TinyPieceSpec());
  if (bytes == 0) return 0;
  const Tokenizer& tokenizer = (data[0] & 8) != 0 ? pieces : byte_level;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  CheckEncoding(tokenizer, text, {.add_bos = (data[0] & 1) != 0, .parse_special = (data[0] & 2) != 0});
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c) % tokenizer.vocab_size());
  CheckDecoding(tokenizer, ids, (data[0] & 4) != 0);
  return 0;
}
