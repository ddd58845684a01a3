// What of a grammar has been read so far: every way to read the output, each as the stack of rules that it is in. The
// ways together are a configuration, which has an id. Where a byte leads is computed once and kept, so that the second
// time it is a look into a table.
#ifndef BATON_GRAMMAR_PARSE_STATES_H_
#define BATON_GRAMMAR_PARSE_STATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "grammar/grammar.h"

namespace baton::grammar {

// What follows after any bytes depends on these bytes alone: not on what else was computed, kept or dropped. Ids do,
// and are never compared between two of these. One thread.
class ParseStates {
 public:
  static constexpr int32_t kDead = -1;

  explicit ParseStates(std::shared_ptr<const Grammar> grammar);

  const std::shared_ptr<const Grammar>& grammar() const { return grammar_; }
  // Before the first byte.
  int32_t start() const { return start_; }
  // The configuration after one more byte, kDead when the grammar does not allow it.
  int32_t Step(int32_t configuration, uint8_t byte) {
    const size_t at = static_cast<size_t>(configuration) * num_classes_ + form_.class_of_byte[byte];
    const int32_t next = transitions_[at];
    return next != kUnknown ? next : ComputeStep(configuration, byte, at);
  }
  // Whether the output may end here.
  bool is_complete(int32_t configuration) const { return configurations_[configuration].is_complete; }
  // What follows from most configurations does so whatever the rules return to that they are in. Such a configuration
  // without what they return to, which many share; kDead when there is none. It is never complete, and leaves where its
  // rules end.
  int32_t WithoutContext(int32_t configuration);
  // Whether a way leads out of what WithoutContext left: what follows then depends on the context too.
  bool leaves(int32_t configuration) const { return configurations_[configuration].leaves; }
  // How deep rules are nested in a configuration that WithoutContext takes, and how much deeper they may come on the
  // way to one that follows from what it gave.
  int32_t depth(int32_t configuration) const;
  int32_t height(int32_t configuration) const { return configurations_[configuration].height; }
  int32_t size() const { return static_cast<int32_t>(configurations_.size()); }
  // Bytes that stand for all: what follows a byte follows each byte of its class.
  absl::Span<const uint8_t> byte_of_each_class() const { return byte_of_class_; }
  size_t MemoryBytes() const { return memory_bytes_; }

  // What computing costs is counted in steps: one for each position that is looked at, and what others spend. No step
  // is refused; whoever has much to do asks whether the steps that Allow gave are spent, and stops.
  void Allow(int64_t steps) { steps_left_ = steps; }
  void Spend(int64_t steps) { steps_left_ -= steps; }
  int64_t steps_left() const { return steps_left_; }
  bool is_spent() const { return steps_left_ < 0; }
  // Asked again and again while something is computed: once it is true, the steps are spent.
  void SpendWhen(std::function<bool()> is_unwanted) { is_unwanted_ = std::move(is_unwanted); }

  // Forgets all configurations but these and the start, and writes their new ids in place of the old ones.
  void Retain(absl::Span<int32_t> configurations);

 private:
  static constexpr int32_t kUnknown = -2;
  static constexpr int32_t kBottom = 0;
  // In place of a context that is left out.
  static constexpr int32_t kOpenBottom = 1;
  // The height where positions were left out because there were too many.
  static constexpr int32_t kTooHigh = 1 << 20;

  // Where rules return to when the one at hand has ended. Equal stacks have one number.
  struct Stack {
    int32_t state;   // In the rule that called.
    int32_t parent;  // That rule's own stack.
    int32_t depth;
    uint64_t digest;  // Of the whole stack: orders stacks alike in every process.
  };
  struct Position {
    int32_t state;
    int32_t stack;
    friend bool operator==(const Position&, const Position&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Position& p) {
      return H::combine(std::move(h), p.state, p.stack);
    }
  };
  struct Configuration {
    int32_t first_position;
    int32_t num_positions;
    int32_t height;
    bool is_complete;
    bool leaves;
  };

  int32_t ComputeStep(int32_t configuration, uint8_t byte, size_t at);
  int32_t StateAfter(int32_t state, uint8_t byte) const;
  int32_t Push(int32_t state, int32_t parent);
  // Whether what is open at a position can be closed within kMaxStackDepth.
  bool Fits(int32_t state, int32_t stack);
  // Notes a position that may be read from, or ended at, next.
  void Reach(int32_t state, int32_t stack);
  // Follows calls and ends of rules from what was reached, and gives the configuration of all positions that read a
  // byte.
  int32_t Close();
  void KeepShallowest();
  int32_t Intern(bool is_complete, bool leaves);
  void Clear();
  uint64_t DigestOf(const Position& position) const;

  const std::shared_ptr<const Grammar> grammar_;
  const GrammarForm& form_;
  const size_t num_classes_;
  std::vector<uint8_t> byte_of_class_;

  std::vector<Stack> stacks_;
  absl::flat_hash_map<Position, int32_t> stack_ids_;
  std::vector<Position> positions_;  // Of all configurations.
  std::vector<Configuration> configurations_;
  std::vector<int32_t> transitions_;                               // By configuration and class of bytes.
  absl::flat_hash_map<uint64_t, std::vector<int32_t>> by_digest_;  // Configurations.
  size_t memory_bytes_ = 0;
  int64_t steps_left_ = std::numeric_limits<int64_t>::max();
  std::function<bool()> is_unwanted_;
  int32_t start_ = 0;
  // For Close.
  std::vector<Position> reached_;
  std::vector<Position> ways_;
  absl::flat_hash_set<Position> seen_;
  int32_t height_ = 0;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_PARSE_STATES_H_
