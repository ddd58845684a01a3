// Which rules may begin with which. A rule that begins with itself would be called within itself without end before a
// byte is read.
#ifndef BATON_GRAMMAR_LEFT_RECURSION_H_
#define BATON_GRAMMAR_LEFT_RECURSION_H_

#include <cstdint>
#include <vector>

namespace baton::grammar {

// One thread.
class LeftCalls {
 public:
  explicit LeftCalls(int32_t num_rules) : calls_(num_rules) {}

  // A tail call remembers nothing, so that a circle of tail calls alone comes back to where it began, and is harmless.
  void Add(int32_t from, int32_t to, bool is_tail) { calls_[from].push_back({to, is_tail}); }

  // A rule on a circle that remembers more and more, or -1.
  int32_t FindGrowingCircle() const;

 private:
  struct Call {
    int32_t to;
    bool is_tail;
  };

  // The strongly connected component of each rule.
  std::vector<int32_t> FindComponents() const;

  std::vector<std::vector<Call>> calls_;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_LEFT_RECURSION_H_
