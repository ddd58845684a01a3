// Finds stop strings in streamed text without ever emitting a part of one.
#ifndef BATON_TOKENIZER_STOP_MATCHER_H_
#define BATON_TOKENIZER_STOP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace baton::tokenizer {

// An Aho-Corasick automaton over bytes, so that time is linear in the text whatever the stop strings are. The stop
// string that ends first wins, and among several that end together the longest; the emitted text ends where that one
// begins. Holds back less than kMaxStopStringBytes bytes. If text and stops are valid UTF-8, the emitted text is cut at
// character edges. For one stream; one thread at a time.
class StopMatcher {
 public:
  // Without stop strings everything passes through. INVALID_ARGUMENT beyond kMaxStopStrings or kMaxStopStringBytes
  // (common/limits.h), for an empty string, and for one that is not valid UTF-8.
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stops);

  struct Output {
    std::string text;  // safe to show
    bool stopped = false;
    // The index of the stop string in Create's list; -1 while not stopped.
    int stop_index = -1;
  };

  // No earlier call may have returned stopped. Drops the text after a stop.
  Output Push(std::string_view piece);

  // Ends the text and returns what was held back, which is then not a stop string.
  std::string Flush();

  size_t held_bytes() const { return held_.size(); }

 private:
  StopMatcher() = default;
  struct Node {
    absl::flat_hash_map<uint8_t, int32_t> next;
    int32_t fail = 0;
    int32_t depth_bytes = 0;
    // The longest stop string that ends here; -1 if none does.
    int32_t stop_index = -1;
  };

  void Insert(std::string_view stop, int index);
  void LinkFailures();
  int32_t Step(int32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::vector<size_t> stop_bytes_;
  int32_t state_ = 0;
  // The text of the automaton's current match. It has depth_bytes of state_, which are always whole characters.
  std::string held_;
  bool stopped_ = false;
};

}  // namespace baton::tokenizer

#endif  // BATON_TOKENIZER_STOP_MATCHER_H_
