// Token ids to text pieces, one token at a time, for streaming.
#ifndef BATON_TOKENIZER_STREAM_DETOKENIZER_H_
#define BATON_TOKENIZER_STREAM_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace baton::tokenizer {

// Never emits part of a UTF-8 character: bytes that may still become one (at most 3) wait for the next token. Bytes
// that cannot become one turn into U+FFFD at once. Of a SentencePiece-style tokenizer a run of byte tokens waits for
// its end (ByteRunDecoder). All pieces and the flush together equal Tokenizer::Decode of all ids. One stream, one
// thread at a time; the tokenizer must outlive it.
class StreamDetokenizer {
 public:
  explicit StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special), at_start_(tokenizer.strips_space_prefix()) {}

  // The text that became certain, possibly empty. INVALID_ARGUMENT for an id outside the vocabulary; the state is then
  // as before the call.
  absl::StatusOr<std::string> Push(int32_t id);

  // The end: an unfinished character becomes U+FFFD. Afterwards the object is as new.
  std::string Flush();

  // Bytes held back now: 0 to 3, or a run of byte tokens.
  size_t pending_bytes() const { return decoder_.pending_bytes() + byte_run_.pending_bytes(); }

 private:
  void StripSpacePrefix(std::string* text);

  const Tokenizer* tokenizer_;
  bool skip_special_;
  // No text yet, and its first space is not part of it.
  bool at_start_;
  // Byte-level tokens go through decoder_, byte tokens among text through byte_run_.
  Utf8LossyDecoder decoder_;
  ByteRunDecoder byte_run_;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_STREAM_DETOKENIZER_H_
