#include "tokenizer/stream_detokenizer.h"

#include "absl/strings/str_cat.h"

namespace baton::tokenizer {

absl::StatusOr<std::string> StreamDetokenizer::Push(int32_t id) {
  if (!tokenizer_->IsValidId(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("token id ", id, " is not in the vocabulary of ", tokenizer_->vocab_size(), " tokens"));
  }
  std::string text;
  if (skip_special_ && tokenizer_->IsSpecial(id)) return text;
  decoder_.Push(tokenizer_->TokenBytes(id), &text);
  return text;
}

std::string StreamDetokenizer::Flush() {
  std::string text;
  decoder_.Flush(&text);
  return text;
}

}  // namespace baton::tokenizer
