// Finds tokens that are written out in a text, such as <|im_start|>.
#ifndef BATON_TOKENIZER_SPECIAL_TOKENS_H_
#define BATON_TOKENIZER_SPECIAL_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace baton::tokenizer {

// Finds the leftmost match, and the longest one there, as tokenizers does. Immutable once filled; thread-safe.
class SpecialTokenMatcher {
 public:
  // `text` must not be empty. A later token with the same text replaces an earlier one.
  void Add(std::string_view text, int32_t id);

  struct Match {
    size_t begin = 0;
    size_t end = 0;  // equal to begin if there is no match
    int32_t id = -1;
    // The text ends where it might still become a token, or a longer one.
    bool cut = false;
  };
  // False for most characters: a quick look before MatchAt.
  bool MayBeginWith(char c) const { return begins_[static_cast<uint8_t>(c)]; }
  // The longest token that begins at `begin`, which is within the text.
  Match MatchAt(std::string_view text, size_t begin) const;
  // O(bytes scanned x longest token).
  Match Find(std::string_view text, size_t from) const;

 private:
  // A trie over bytes; node 0 is the root. Key of next_: node << 8 | byte.
  absl::flat_hash_map<uint64_t, int32_t> next_;
  std::vector<int32_t> id_{-1};
  // Which bytes can begin a token. This alone skips most of a text.
  bool begins_[256] = {};
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_SPECIAL_TOKENS_H_
