// BPE over characters as SentencePiece models use it (Llama 2, Gemma): spaces are written as U+2581, characters without
// a token of their own become byte tokens "<0x0A>". https://github.com/google/sentencepiece
#ifndef BATON_TOKENIZER_SENTENCEPIECE_H_
#define BATON_TOKENIZER_SENTENCEPIECE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/tokenizer_spec.h"
#include "tokenizer/bpe.h"

namespace baton::tokenizer {

// U+2581, the written form of a space.
inline constexpr std::string_view kWrittenSpace = "\xE2\x96\x81";

// The byte that "<0x0A>" stands for; none for other tokens.
std::optional<uint8_t> ByteOfToken(std::string_view written);

// A token as text: written spaces become spaces. A byte token is its byte.
std::string PieceToBytes(std::string_view written);

// Tokens of nothing but spaces are user-defined symbols in Gemma's files; transformers merges their characters like any
// others instead of looking for them in the text. These take part in merges, in written form.
bool IsSpaceRun(std::string_view token);

// Immutable after Create; thread-safe.
class SentencePieceEncoder {
 public:
  // `vocab` maps written forms to ids. Rules are spec.merges or, where a file has none, derived from the tokens: every
  // cut of a token into two tokens is a rule, better scores first, as transformers derives them. Control tokens are
  // never the result of a derived rule. INVALID_ARGUMENT as of MergeRules::AddAll, and without merges and scores.
  static absl::StatusOr<std::unique_ptr<SentencePieceEncoder>> Create(const modelfile::TokenizerSpec& spec,
                                                                      const Vocabulary& vocab);

  // Appends the ids of valid UTF-8 that lies between added tokens. `at_start`: it begins the whole text. A character
  // for which there are neither token nor byte tokens becomes the unknown token, one for a run of them, or is dropped
  // where there is none. O(n log n).
  void Encode(std::string_view text, bool at_start, std::vector<int32_t>* ids) const;

 private:
  SentencePieceEncoder() = default;
  void DeriveRules(const modelfile::TokenizerSpec& spec, const Vocabulary& vocab);
  void AddCharacter(std::string_view character, std::vector<int32_t>* symbols) const;

  MergeRules rules_;
  Vocabulary characters_;  // tokens of one character
  std::array<int32_t, 256> byte_ids_{};
  int32_t unknown_id_ = -1;
  modelfile::SpacePrefix space_prefix_ = modelfile::SpacePrefix::kNone;
};

// Byte tokens back to text as `tokenizers` does it: a run of them that is not valid UTF-8 as a whole becomes one U+FFFD
// a byte. So nothing of a run is certain before its end; a run longer than kMaxHeldRunBytes is cut after a whole
// character.
class ByteRunDecoder {
 public:
  static constexpr size_t kMaxHeldRunBytes = 64;

  // Appends to `out` what is certain.
  void Push(uint8_t byte, std::string* out);
  // The run is over: something else follows, or nothing.
  void EndRun(std::string* out);
  size_t pending_bytes() const { return run_.size(); }

 private:
  std::string run_;
  // The run is known to be invalid: run_ is empty and every further byte is replaced.
  bool broken_ = false;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_SENTENCEPIECE_H_
