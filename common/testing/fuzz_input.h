// What a fuzzer's bytes say, read from the front. Once they are used up, everything is zero. For fuzzers of sequences
// of events: each event takes a few bytes, so that bytes which libFuzzer inserts or leaves out move the events behind
// them and do not change them.
#ifndef BATON_COMMON_TESTING_FUZZ_INPUT_H_
#define BATON_COMMON_TESTING_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "absl/types/span.h"

namespace baton {

// Used by one thread. The bytes outlive it.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t bytes) : rest_(data, bytes) {}

  bool empty() const { return rest_.empty(); }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const uint8_t byte = rest_.front();
    rest_.remove_prefix(1);
    return byte;
  }
  // From 0 to bound - 1; `bound` is from 1 to 256.
  int Below(int bound) { return Byte() % bound; }
  bool Flag() { return (Byte() & 1) != 0; }
  // Once in 16 times.
  bool Rarely() { return Byte() % 16 == 15; }

  uint64_t Word() {
    uint64_t word = 0;
    for (size_t i = 0; i < sizeof(word); ++i) word = word << 8 | Byte();
    return word;
  }

  // A number as a peer may state it: mostly small, else at an edge of its type, or any.
  template <typename Number>
  Number Hostile() {
    constexpr Number kLeast = std::numeric_limits<Number>::min();
    constexpr Number kMost = std::numeric_limits<Number>::max();
    constexpr Number kEdges[] = {kLeast, kLeast + 1, kMost, kMost - 1, kMost / 2, static_cast<Number>(-1)};
    constexpr uint8_t kSmall = 200;
    const uint8_t byte = Byte();
    if (byte < kSmall) return byte;
    const size_t edge = byte - kSmall;
    return edge < std::size(kEdges) ? kEdges[edge] : static_cast<Number>(Word());
  }

  // At most `limit` bytes, and at most 255.
  std::string Text(size_t limit) {
    const size_t bytes = std::min({size_t{Byte()}, limit, rest_.size()});
    std::string text(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(bytes));
    rest_.remove_prefix(bytes);
    return text;
  }

 private:
  absl::Span<const uint8_t> rest_;
};

}  // namespace baton

#endif  // BATON_COMMON_TESTING_FUZZ_INPUT_H_
