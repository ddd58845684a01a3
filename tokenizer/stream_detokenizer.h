// Turns token ids into pieces of text, one token at a time, for streaming.
#ifndef BATON_TOKENIZER_STREAM_DETOKENIZER_H_
#define BATON_TOKENIZER_STREAM_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/utf8.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer.h"

namespace baton::tokenizer {

// Never emits part of a UTF-8 character: bytes that may still become one (at most 3) wait for the next token, and bytes
// that cannot become one turn into U+FFFD at once. With a SentencePiece-style tokenizer, a run of byte tokens waits for
// its end (ByteRunDecoder). All pieces and the flush together equal Tokenizer::Decode of all ids. For one stream; one
// thread at a time. The tokenizer must outlive it.
class StreamDetokenizer {
 public:
  explicit StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special), at_start_(tokenizer.strips_space_prefix()) {}

  // Returns the text that became certain, which may be empty. INVALID_ARGUMENT for an id outside the vocabulary, which
  // leaves the state unchanged.
  absl::StatusOr<std::string> Push(int32_t id);

  // Ends the stream: an unfinished character becomes U+FFFD. Afterwards the object is like a new one.
  std::string Flush();

  // How many bytes are held back: 0 to 3, or those of a run of byte tokens.
  size_t pending_bytes() const { return decoder_.pending_bytes() + byte_run_.pending_bytes(); }

 private:
  void StripSpacePrefix(std::string* text);

  const Tokenizer* tokenizer_;
  bool skip_special_;
  // Whether there is no text yet and its first space must be dropped.
  bool at_start_;
  // decoder_ decodes byte-level tokens, byte_run_ the byte tokens among tokens of text.
  Utf8LossyDecoder decoder_;
  ByteRunDecoder byte_run_;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_STREAM_DETOKENIZER_H_
