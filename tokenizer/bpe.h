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
#include "absl/types/span.h"

namespace baton::tokenizer {

// The bytes of a token from its text in a byte-level vocabulary, which writes each byte as one printable character
// (GPT-2's table). A text with characters outside the table stands for itself.
std::string ByteLevelToBytes(std::string_view written);
// The written form of bytes.
std::string BytesToByteLevel(std::string_view bytes);

// From a token's written form to its id.
using Vocabulary = absl::flat_hash_map<std::string, int32_t>;

// Which neighbours merge, and in which order. Immutable once filled; thread-safe.
class MergeRules {
 public:
  // `merges` are "left right" pairs in written form, best first. INVALID_ARGUMENT when one is malformed or names a
  // token that is not in the vocabulary.
  absl::Status AddAll(const Vocabulary& vocab, const std::vector<std::string>& merges);

  struct Rule {
    int32_t left;
    int32_t right;
    int32_t merged;
  };
  void Reserve(size_t rules) { rules_.reserve(rules); }
  // The new rule ranks after all earlier ones. A pair that is added twice has its last rank, as in tokenizers.
  void Add(const Rule& rule);

  // Merges `symbols`, which are token ids in the order of the text, and appends the result to `ids`. The best rule is
  // applied first, and the leftmost pair among equals. O(n log n).
  void Merge(absl::Span<const int32_t> symbols, std::vector<int32_t>* ids) const;

 private:
  struct Merged {
    int32_t rank;
    int32_t id;
  };
  struct Symbol;

  const Merged* Find(int32_t left, int32_t right) const;
  void MergeSymbols(std::vector<Symbol>* symbols) const;

  absl::flat_hash_map<uint64_t, Merged> rules_;  // key: left id << 32 | right id
  int32_t next_rank_ = 0;
};

// Byte-level BPE. Immutable after Build; thread-safe.
class BpeMerger {
 public:
  // Errors are those of MergeRules::AddAll.
  absl::Status Build(const Vocabulary& vocab, const std::vector<std::string>& merges);

  // A whole word that is a token is taken without merging (`ignore_merges` of tokenizers).
  void SetWholeWords(Vocabulary words) { whole_words_ = std::move(words); }

  // Appends the ids of one pre-token. A byte that is not a token by itself is dropped, as tokenizers does when there is
  // no unknown token. O(n log n).
  void Merge(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  std::array<int32_t, 256> byte_ids_{};
  MergeRules rules_;
  Vocabulary whole_words_;  // by raw bytes
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_BPE_H_
