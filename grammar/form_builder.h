// The steps that make a GrammarForm of automata.
#ifndef BATON_GRAMMAR_FORM_BUILDER_H_
#define BATON_GRAMMAR_FORM_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "grammar/automaton.h"
#include "grammar/grammar_form.h"

namespace baton::grammar {

// One use. The graph and the budget must outlive it.
class FormBuilder {
 public:
  FormBuilder(const RuleGraph& graph, CompileBudget* budget) : graph_(graph), budget_(*budget) {}

  absl::StatusOr<GrammarForm> Run(int32_t root);

 private:
  static constexpr int32_t kNever = 1 << 30;
  struct CallEdge {
    int32_t rule;  // An index of rules_.
    int32_t to;
    bool is_tail = false;
  };
  // A state of any rule, with states numbered over all of them.
  struct State {
    std::vector<Automaton::ByteEdge> bytes;
    std::vector<CallEdge> calls;
    bool is_final = false;
    int32_t need = kNever;
  };
  struct Rule {
    int32_t id;  // In the graph.
    int32_t start = -1;
  };

  absl::Status CollectRules(int32_t root);
  int32_t IndexOf(int32_t rule);
  // Sets `need` of all states, going from small to large as Dijkstra's algorithm does.
  void ComputeNeeds();
  void DropDeadEdges();
  void MarkTailCalls();
  absl::Status RefuseLeftRecursion() const;
  std::vector<bool> FindNullable() const;
  GrammarForm Flatten() const;
  void AssignClasses(GrammarForm* form) const;

  const RuleGraph& graph_;
  CompileBudget& budget_;
  std::vector<Rule> rules_;
  absl::flat_hash_map<int32_t, int32_t> index_of_;
  std::vector<State> states_;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_FORM_BUILDER_H_
