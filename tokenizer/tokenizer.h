// Turns text into token ids and back, as the Hugging Face `tokenizers` library does, for byte-level BPE ("gpt2") and
// SentencePiece-style BPE ("llama"). Encode cuts out added tokens. The first kind then pre-tokenizes by the family's
// patterns (pre_tokenizer.h) and merges bytes; the second merges characters (sentencepiece.h).
#ifndef BATON_TOKENIZER_TOKENIZER_H_
#define BATON_TOKENIZER_TOKENIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "modelfile/tokenizer_spec.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/special_tokens.h"

namespace baton::tokenizer {

// The longest text that one Encode takes. Requests have a far lower bound (kMaxPromptBytes), but a chat template may
// add.
inline constexpr size_t kMaxEncodeBytes = 8u << 20;

struct EncodeOptions {
  // Prepends BOS if the model's metadata asks for it (Tokenizer::adds_bos). It is off for rendered chat templates,
  // which write BOS themselves.
  bool add_bos = false;
  // Special tokens written out in the text become their ids. If off, they are plain text; user-defined tokens, which
  // are not special, are found either way.
  bool parse_special = true;
  // Ascending offsets at which no special token begins, whatever the text spells there. For the call alone.
  absl::Span<const size_t> literal_at = {};
  // Encode gives up once there are more ids than these.
  size_t max_ids = std::numeric_limits<size_t>::max();
};

// What each token of the vocabulary writes, for those who need no tokenizer; empty for tokens that write nothing or
// stand for no text. INVALID_ARGUMENT and UNIMPLEMENTED as in Tokenizer::Create.
absl::StatusOr<std::vector<std::string>> TokenTexts(const modelfile::TokenizerSpec& spec);

// Immutable and thread-safe after Create.
class Tokenizer {
 public:
  // Copies what it needs from `spec`. INVALID_ARGUMENT for damaged metadata, UNIMPLEMENTED for a tokenizer model or a
  // pre-tokenizer that Baton does not know.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const modelfile::TokenizerSpec& spec);

  // INVALID_ARGUMENT for text that is not valid UTF-8, naming the byte, or longer than kMaxEncodeBytes. OUT_OF_RANGE
  // when there are more than `max_ids` ids; the words after those are then not looked at. Time is O(n log n) in the
  // bytes of the text. An empty text gives no ids (or BOS alone).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The offsets at which `text` spells a special token, or ends within the spelling of one (blanks behind it aside).
  std::vector<size_t> FindSpecialSpellings(std::string_view text) const;

  // No encoding of `text` has fewer ids than these: the bytes of the text over those of the longest token. Costs a look
  // at each byte.
  size_t MinTokens(std::string_view text) const;

  // The text of `ids`. In byte-level tokens each maximal invalid piece of UTF-8 becomes one U+FFFD; ByteRunDecoder says
  // what becomes of byte tokens. INVALID_ARGUMENT for an id outside the vocabulary, OUT_OF_RANGE for a text of more
  // than `max_bytes`.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids, bool skip_special,
                                     size_t max_bytes = std::numeric_limits<size_t>::max()) const;

  // The raw bytes of a token, which need not be whole UTF-8 characters. Requires IsValidId(id).
  const std::string& TokenBytes(int32_t id) const;
  bool IsValidId(int32_t id) const { return id >= 0 && id < vocab_size(); }
  // Whether the id is a control token such as <|im_end|>. False for ids outside the vocabulary.
  bool IsSpecial(int32_t id) const { return IsValidId(id) && special_[id]; }

  int32_t vocab_size() const { return static_cast<int32_t>(token_bytes_.size()); }
  // -1 if the model has none.
  int32_t bos_id() const { return bos_id_; }
  int32_t eos_id() const { return eos_id_; }
  int32_t unknown_id() const { return unknown_id_; }
  int32_t padding_id() const { return padding_id_; }
  bool adds_bos() const { return adds_bos_; }
  // The written form of a token for chat templates (bos_token, eos_token). Empty for -1.
  std::string TokenText(int32_t id) const { return IsValidId(id) ? TokenBytes(id) : std::string(); }

  // Whether the token is one byte among tokens of text (ByteRunDecoder). Never true for a byte-level vocabulary.
  bool IsByteToken(int32_t id) const { return pieces_ != nullptr && IsValidId(id) && byte_token_[id]; }
  bool is_byte_level() const { return pieces_ == nullptr; }
  // Whether Encode puts a space before the text, so that Decode removes one.
  bool strips_space_prefix() const { return strips_space_prefix_; }

 private:
  Tokenizer() = default;
  absl::Status InitByteLevel(const modelfile::TokenizerSpec& spec, const Vocabulary& vocab);
  absl::Status InitSentencePiece(const modelfile::TokenizerSpec& spec, const Vocabulary& vocab);
  void AddToken(std::string bytes, modelfile::TokenType type);
  // What MinTokens needs to know: the bytes that Encode never drops, and the longest token as it is written in a text.
  void InitMinTokens(const modelfile::TokenizerSpec& spec, const Vocabulary& vocab);
  // The next added token from `from` on that is not only text.
  SpecialTokenMatcher::Match FindAdded(std::string_view text, size_t from, const EncodeOptions& options) const;
  // Stops after the word with which there are more than `max_ids`.
  absl::Status EncodePlain(std::string_view text, bool at_start, size_t max_ids, std::vector<int32_t>* ids) const;

  std::vector<std::string> token_bytes_;
  std::vector<bool> special_;
  int32_t bos_id_ = -1;
  int32_t eos_id_ = -1;
  int32_t unknown_id_ = -1;
  int32_t padding_id_ = -1;
  bool adds_bos_ = false;
  std::array<bool, 256> kept_bytes_{};
  size_t longest_token_bytes_ = 1;
  bool strips_space_prefix_ = false;
  // Set for byte-level BPE.
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  BpeMerger bpe_;
  // Set for SentencePiece-style BPE, else null.
  std::unique_ptr<SentencePieceEncoder> pieces_;
  std::vector<bool> byte_token_;
  SpecialTokenMatcher all_added_;
  SpecialTokenMatcher user_defined_;
  SpecialTokenMatcher control_;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_TOKENIZER_H_
