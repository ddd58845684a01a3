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
  const std::string& bytes = tokenizer_->TokenBytes(id);
  if (tokenizer_->is_byte_level()) {
    decoder_.Push(bytes, &text);
  } else if (tokenizer_->IsByteToken(id)) {
    byte_run_.Push(static_cast<uint8_t>(bytes[0]), &text);
  } else {
    byte_run_.EndRun(&text);
    text += bytes;
  }
  StripSpacePrefix(&text);
  return text;
}

std::string StreamDetokenizer::Flush() {
  std::string text;
  decoder_.Flush(&text);
  byte_run_.EndRun(&text);
  StripSpacePrefix(&text);
  at_start_ = tokenizer_->strips_space_prefix();
  return text;
}

void StreamDetokenizer::StripSpacePrefix(std::string* text) {
  if (!at_start_ || text->empty()) return;
  at_start_ = false;
  if (text->front() == ' ') text->erase(0, 1);
}

}  // namespace baton::tokenizer
