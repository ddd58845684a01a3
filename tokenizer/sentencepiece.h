// BPE over characters as SentencePiece models use it (Llama 2, Gemma). Spaces are written as U+2581, and a character
// without a token becomes byte tokens such as "<0x0A>". https://github.com/google/sentencepiece
#ifndef BATON_TOKENIZER_SENTENCEPIECE_H_
#define BATON_TOKENIZER_SENTENCEPIECE_H_

#include <algorithm>
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

// The byte that a byte token such as "<0x0A>" stands for. None for other tokens.
std::optional<uint8_t> ByteOfToken(std::string_view written);

// A token as text: written spaces become spaces, and a byte token becomes its byte.
std::string PieceToBytes(std::string_view written);

// Whether the token is nothing but spaces. Gemma's files call such tokens user-defined, but transformers merges their
// characters like any others instead of looking for the token in the text. So they take part in merges in written form.
bool IsSpaceRun(std::string_view token);

// Immutable after Create; thread-safe.
class SentencePieceEncoder {
 public:
  // `vocab` maps written forms to ids. The rules are spec.merges. If a file has none, they are derived from the tokens
  // as transformers does: every cut of a token into two tokens is a rule, better scores first. No derived rule makes a
  // control token. INVALID_ARGUMENT as MergeRules::AddAll gives, and if the file has neither merges nor scores.
  static absl::StatusOr<std::unique_ptr<SentencePieceEncoder>> Create(const modelfile::TokenizerSpec& spec,
                                                                      const Vocabulary& vocab);

  // Appends the ids of valid UTF-8 that lies between added tokens. `at_start` says that it begins the whole text. A run
  // of characters without a token and without byte tokens becomes one unknown token, or is dropped if the vocabulary
  // has no unknown token. O(n log n).
  void Encode(std::string_view text, bool at_start, std::vector<int32_t>* ids) const;

  // Whether every byte has a token, so that no character is unknown.
  bool has_all_bytes() const {
    return std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
  }

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

// Turns byte tokens back into text as `tokenizers` does: a run of them that is not valid UTF-8 as a whole becomes one
// U+FFFD per byte. Nothing of a run is therefore certain before its end. A run longer than kMaxHeldRunBytes is cut
// after a whole character.
class ByteRunDecoder {
 public:
  static constexpr size_t kMaxHeldRunBytes = 64;

  // Appends the text that has become certain to `out`.
  void Push(uint8_t byte, std::string* out);
  // Ends the run: another token follows, or none.
  void EndRun(std::string* out);
  size_t pending_bytes() const { return run_.size(); }

 private:
  std::string run_;
  // Whether the run is known to be invalid. run_ is then empty, and every further byte is replaced.
  bool broken_ = false;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_SENTENCEPIECE_H_
