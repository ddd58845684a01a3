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

// A token's text in a byte-level vocabulary, where each byte is written as one printable character (GPT-2's table), as
// bytes. A text with characters outside the table stands for itself.
std::string ByteLevelToBytes(std::string_view written);
// The written form of bytes.
std::string BytesToByteLevel(std::string_view bytes);

// Written form to id.
using Vocabulary = absl::flat_hash_map<std::string, int32_t>;

// Which neighbours merge, and which first. Immutable once filled; thread-safe.
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
  // Ranks after every rule added before. A pair that is added twice keeps its last rank, as in tokenizers.
  void Add(const Rule& rule);

  // Merges `symbols`, token ids in the order of the text, best rule first and leftmost among equals, and appends what
  // is left to `ids`. O(n log n).
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
  // Errors as of MergeRules::AddAll.
  absl::Status Build(const Vocabulary& vocab, const std::vector<std::string>& merges);

  // Whole words that are tokens are taken without merging (the `ignore_merges` of tokenizers).
  void SetWholeWords(Vocabulary words) { whole_words_ = std::move(words); }

  // Appends the ids of one pre-token. Bytes that are no token by themselves are dropped, as tokenizers does without an
  // unknown token. O(n log n).
  void Merge(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  std::array<int32_t, 256> byte_ids_{};
  MergeRules rules_;
  Vocabulary whole_words_;  // by raw bytes
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_BPE_H_
