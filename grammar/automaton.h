// A rule made deterministic: at each state a byte leads to one state, and so does each rule that may be called there.
#ifndef BATON_GRAMMAR_AUTOMATON_H_
#define BATON_GRAMMAR_AUTOMATON_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "grammar/compile_budget.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {

struct Automaton {
  struct ByteEdge {
    uint8_t low;
    uint8_t high;
    int32_t to;
  };
  struct CallEdge {
    int32_t rule;
    int32_t to;
  };
  struct State {
    std::vector<ByteEdge> bytes;  // Ascending, without overlap.
    std::vector<CallEdge> calls;  // Ascending by rule.
    bool is_final = false;
  };
  // The first one is the start.
  std::vector<State> states;

  // The state after the byte, or -1. Calls are not looked at.
  int32_t Next(int32_t state, uint8_t byte) const;
  // Whether it reads the whole text. It must have no calls.
  bool Matches(std::string_view text) const;
};

// Makes parts of one graph deterministic, which may grow meanwhile. The graph and the budget must outlive it. One
// thread.
class Determinizer {
 public:
  Determinizer(const RuleGraph& graph, CompileBudget* budget) : graph_(graph), budget_(*budget) {}

  // What is read between two states. RESOURCE_EXHAUSTED when the budget is spent.
  absl::StatusOr<Automaton> Run(int32_t start, int32_t accept);

 private:
  using Set = std::vector<int32_t>;

  // The state of the automaton for what follows these states of the graph.
  int32_t StateOf(const Set& kernel);
  Set Closure(const Set& kernel);
  void Expand(int32_t id);
  void SortEdges(const Set& states);
  void AddByteEdges(int32_t id);
  void AddCallEdges(int32_t id);

  const RuleGraph& graph_;
  CompileBudget& budget_;
  // Of the run in progress.
  int32_t accept_ = -1;
  Automaton automaton_;
  std::vector<Set> sets_;  // By state of the automaton: ascending states of the graph that have edges or accept.
  absl::flat_hash_map<Set, int32_t> ids_;
  // For closures: which states of the graph this round has seen.
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  // For Expand.
  std::vector<Automaton::ByteEdge> bytes_;
  std::vector<Automaton::CallEdge> calls_;
  std::array<Set, 257> buckets_;
};

// Both must have no calls. What both read, and what the first reads but not the second.
absl::StatusOr<Automaton> Intersect(const Automaton& a, const Automaton& b, CompileBudget* budget);
absl::StatusOr<Automaton> Subtract(const Automaton& a, const Automaton& b, CompileBudget* budget);

// Adds the automaton to the graph, between two of its states.
void Embed(const Automaton& automaton, int32_t from, int32_t to, RuleGraph* graph);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_AUTOMATON_H_
