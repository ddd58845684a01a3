// libFuzzer over text and ids: what encodes decodes to itself, and pieces of a stream add up to the whole.
// Byte 0 chooses the options; the rest is the text, and then each of its bytes an id.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "tokenizer/stop_matcher.h"
#include "tokenizer/stream_detokenizer.h"
#include "tokenizer/tiny_spec.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

const Tokenizer& TinyTokenizer() {
  static const Tokenizer* const tokenizer = [] {
    auto created = Tokenizer::Create(TinySpec());
    BATON_CHECK(created.ok()) << created.status();
    return created->release();
  }();
  return *tokenizer;
}

void CheckDecoding(const std::vector<int32_t>& ids, bool skip_special) {
  const auto whole = TinyTokenizer().Decode(ids, skip_special);
  BATON_CHECK(whole.ok()) << whole.status();
  BATON_CHECK(IsValidUtf8(*whole));
  StreamDetokenizer stream(TinyTokenizer(), skip_special);
  std::string streamed;
  for (const int32_t id : ids) {
    const auto piece = stream.Push(id);
    BATON_CHECK(piece.ok()) << piece.status();
    BATON_CHECK(IsValidUtf8(*piece));
    streamed += *piece;
  }
  streamed += stream.Flush();
  BATON_CHECK(streamed == *whole);
}

void CheckEncoding(std::string_view text, const EncodeOptions& options) {
  const auto ids = TinyTokenizer().Encode(text, options);
  BATON_CHECK(ids.ok() == IsValidUtf8(text)) << ids.status();
  if (!ids.ok()) return;
  const auto decoded = TinyTokenizer().Decode(*ids, /*skip_special=*/false);
  BATON_CHECK(decoded.ok()) << decoded.status();
  const std::string bos = options.add_bos ? TinyTokenizer().TokenText(TinyTokenizer().bos_id()) : "";
  BATON_CHECK(*decoded == bos + std::string(text));
  CheckDecoding(*ids, /*skip_special=*/true);
}

}  // namespace
}  // namespace baton::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace baton::tokenizer;  // NOLINT: one function
  if (bytes == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  CheckEncoding(text, {.add_bos = (data[0] & 1) != 0, .parse_special = (data[0] & 2) != 0});
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c) % TinyTokenizer().vocab_size());
  CheckDecoding(ids, (data[0] & 4) != 0);
  return 0;
}
