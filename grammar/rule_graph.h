// The form that every source takes first: rules, each a nondeterministic automaton whose edges read a byte of a range,
// read nothing, or read what another rule reads. A grammar without recursion needs one rule alone.
#ifndef BATON_GRAMMAR_RULE_GRAPH_H_
#define BATON_GRAMMAR_RULE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace baton::grammar {

// Bounded by kMaxGraphStates: beyond it nothing is added, and Check says so. One thread.
class RuleGraph {
 public:
  struct Rule {
    std::string name;
    int32_t start;
    int32_t accept;
  };
  enum class EdgeKind : uint8_t { kBytes, kEmpty, kCall };
  struct Edge {
    EdgeKind kind;
    uint8_t low;
    uint8_t high;
    int32_t rule;
    int32_t to;
    int32_t next;  // The next edge of the same state, or -1.
  };

  // The name is for messages.
  int32_t AddRule(std::string_view name);
  int32_t AddState();

  void AddBytes(int32_t from, uint8_t low, uint8_t high, int32_t to);
  void AddByte(int32_t from, char byte, int32_t to) { AddBytes(from, ToByte(byte), ToByte(byte), to); }
  void AddEmpty(int32_t from, int32_t to);
  void AddCall(int32_t from, int32_t rule, int32_t to);

  // These make the state that the edge leads to, and return it.
  int32_t Bytes(int32_t from, uint8_t low, uint8_t high);
  int32_t Call(int32_t from, int32_t rule);
  int32_t Text(int32_t from, std::string_view text);
  // Reads the byte or nothing.
  int32_t Optional(int32_t from, char byte);

  const Rule& rule(int32_t id) const { return rules_[id]; }
  int32_t num_rules() const { return static_cast<int32_t>(rules_.size()); }
  int32_t num_states() const { return static_cast<int32_t>(first_edge_.size()); }
  int32_t first_edge(int32_t state) const { return first_edge_[state]; }
  const Edge& edge(int32_t id) const { return edges_[id]; }

  bool is_full() const { return is_full_; }
  // RESOURCE_EXHAUSTED when something was not added.
  absl::Status Check() const;

 private:
  static uint8_t ToByte(char c) { return static_cast<uint8_t>(c); }
  void AddEdge(int32_t from, const Edge& edge);

  std::vector<Rule> rules_;
  std::vector<int32_t> first_edge_;  // By state.
  std::vector<Edge> edges_;
  bool is_full_ = false;
};

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_RULE_GRAPH_H_
