// Byte-pair merging over token ids.
#ifndef BATON_TOKENIZER_BPE_H_
#define BATON_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace baton::tokenizer {

// A token's text in a byte-level vocabulary, where each byte is written as one printable character (GPT-2's table), as
// bytes. A text with characters outside the table stands for itself.
std::string ByteLevelToBytes(std::string_view written);
// The written form of bytes.
std::string BytesToByteLevel(std::string_view bytes);

// Immutable after Build; thread-safe.
class BpeMerger {
 public:
  // `merges` are "left right" pairs in written form, best first; `vocab` maps written form to id. INVALID_ARGUMENT when
  // a merge is malformed or names a token that is not in the vocabulary.
  absl::Status Build(const absl::flat_hash_map<std::string, int32_t>& vocab, const std::vector<std::string>& merges);

  // Whole words that are tokens are taken without merging (the `ignore_merges` of tokenizers).
  void SetWholeWords(absl::flat_hash_map<std::string, int32_t> words) { whole_words_ = std::move(words); }

  // Appends the ids of one pre-token. Bytes that are no token by themselves are dropped, as tokenizers does without an
  // unknown token. O(n log n).
  void Merge(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  struct Rule {
    int32_t rank;
    int32_t merged_id;
  };
  struct Symbol;

  const Rule* FindRule(int32_t left, int32_t right) const;
  void MergeSymbols(std::vector<Symbol>* symbols) const;

  std::array<int32_t, 256> byte_ids_{};
  absl::flat_hash_map<uint64_t, Rule> rules_;              // key: left id << 32 | right id
  absl::flat_hash_map<std::string, int32_t> whole_words_;  // by raw bytes
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_BPE_H_
