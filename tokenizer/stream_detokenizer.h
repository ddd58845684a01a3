// Token ids to text pieces, one token at a time, for streaming.
#ifndef BATON_TOKENIZER_STREAM_DETOKENIZER_H_
#define BATON_TOKENIZER_STREAM_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace baton::tokenizer {

// Never emits part of a UTF-8 character: bytes that may still become one (at most 3) wait for the next token. Bytes
// that cannot become one turn into U+FFFD at once. All pieces and the flush together equal Tokenizer::Decode of all
// ids. One stream, one thread at a time; the tokenizer must outlive it.
class StreamDetokenizer {
 public:
  explicit StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that became certain, possibly empty. INVALID_ARGUMENT for an id outside the vocabulary; the state is then
  // as before the call.
  absl::StatusOr<std::string> Push(int32_t id);

  // The end: an unfinished character becomes U+FFFD. Afterwards the object is as new.
  std::string Flush();

  // Bytes held back now, 0 to 3.
  size_t pending_bytes() const { return decoder_.pending_bytes(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  Utf8LossyDecoder decoder_;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_STREAM_DETOKENIZER_H_
