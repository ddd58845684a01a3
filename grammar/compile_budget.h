// What compiling one source may still cost.
#ifndef BATON_GRAMMAR_COMPILE_BUDGET_H_
#define BATON_GRAMMAR_COMPILE_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {

// One thread.
class CompileBudget {
 public:
  void Spend(int64_t steps) { steps_ += steps; }
  void AddStates(int64_t states) { states_ += states; }
  bool is_spent() const { return steps_ > kMaxCompileSteps || states_ > kMaxFormStates; }
  // RESOURCE_EXHAUSTED once it is spent.
  absl::Status Check() const {
    if (states_ > kMaxFormStates) {
      return absl::ResourceExhaustedError(absl::StrCat("the grammar needs more than ", kMaxFormStates, " states"));
    }
    if (steps_ > kMaxCompileSteps) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the grammar takes more than ", kMaxCompileSteps, " steps to compile"));
    }
    return absl::OkStatus();
  }

 private:
  int64_t steps_ = 0;
  int64_t states_ = 0;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_COMPILE_BUDGET_H_
