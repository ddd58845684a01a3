// A compiled grammar as its matchers read it: the states of all rules in flat arrays.
#ifndef BATON_GRAMMAR_GRAMMAR_FORM_H_
#define BATON_GRAMMAR_GRAMMAR_FORM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "grammar/compile_budget.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {

struct GrammarForm {
  struct ByteEdge {
    uint8_t low;
    uint8_t high;
    int32_t to;
  };
  struct CallEdge {
    int32_t start;  // Of the rule that is called.
    int32_t to;     // -1: nothing may follow the call in its rule, so that nothing has to be remembered.
  };
  // Its byte edges are bytes[first_byte] up to those of the next state, and so for its calls. One more state ends the
  // list. From every state some output can be completed.
  struct State {
    int32_t first_byte;
    int32_t first_call;
    int32_t need;  // How deep rules must be called within rules, at least, until the rule of this state has ended.
    bool is_final;
  };

  std::vector<State> states;
  std::vector<ByteEdge> bytes;
  std::vector<CallEdge> calls;
  int32_t start = 0;
  // Bytes of one class are alike to every state.
  std::array<uint8_t, 256> class_of_byte = {};
  int32_t num_classes = 1;
};

// The form of the rules that `root` needs. INVALID_ARGUMENT when no output can ever be complete, UNIMPLEMENTED for left
// recursion, RESOURCE_EXHAUSTED beyond a limit.
absl::StatusOr<GrammarForm> BuildForm(const RuleGraph& graph, int32_t root, CompileBudget* budget);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_GRAMMAR_FORM_H_
