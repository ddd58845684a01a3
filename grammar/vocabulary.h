// What each token of a model writes, as a tree of bytes, in which tokens that begin alike share a path.
#ifndef BATON_GRAMMAR_VOCABULARY_H_
#define BATON_GRAMMAR_VOCABULARY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {

// Immutable, any thread.
class Vocabulary {
 public:
  // A step of the tree in depth-first order. The root has none.
  struct Node {
    int32_t skip;    // The first node that is not below this one.
    int32_t token;   // The first token that ends here, -1: none.
    uint16_t depth;  // Bytes up to here and with this one.
    uint8_t byte;
    uint8_t below;  // Bytes from here to the end of the longest token below, 255 where there are more.
  };

  // bytes[id] is what the token `id` adds to the output, empty for tokens that no grammar allows. Tokens of more than
  // 2^16 - 1 bytes are among those. eos_ids end an output, whatever their bytes; ids outside the vocabulary are
  // ignored. A model without any of them has empty masks where an output must end.
  static std::shared_ptr<const Vocabulary> Create(std::vector<std::string> bytes, std::vector<int32_t> eos_ids);

  int32_t size() const { return static_cast<int32_t>(begin_.size()) - 1; }
  // Requires an id of the vocabulary. Empty for the tokens that end the output.
  std::string_view bytes(int32_t id) const {
    return std::string_view(text_).substr(begin_[id], begin_[id + 1] - begin_[id]);
  }
  bool is_eos(int32_t id) const;
  absl::Span<const int32_t> eos_ids() const { return eos_ids_; }  // Ascending, without repeats.

  absl::Span<const Node> nodes() const { return nodes_; }
  // The next token with the same bytes, or -1.
  int32_t next_alike(int32_t id) const { return next_alike_[id]; }
  // The bytes of the longest token.
  size_t max_token_bytes() const { return max_token_bytes_; }
  // A bit for each token, as in a mask: set for those of 1 to `bytes` bytes. `bytes` is at most kMaxAgreedBytes.
  const std::vector<uint64_t>& tokens_up_to(int32_t bytes) const { return up_to_[bytes]; }
  size_t MemoryBytes() const;

 private:
  Vocabulary(std::vector<std::string> bytes, std::vector<int32_t> eos_ids);
  void BuildTree();
  void SortByLength();

  std::string text_;  // All tokens, one after the other.
  std::vector<uint32_t> begin_;
  std::vector<int32_t> eos_ids_;
  std::vector<Node> nodes_;
  std::vector<int32_t> next_alike_;
  std::array<std::vector<uint64_t>, kMaxAgreedBytes + 1> up_to_;
  size_t max_token_bytes_ = 0;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_VOCABULARY_H_
