#include "grammar/rule_graph.h"

#include "absl/strings/str_cat.h"
#include "grammar/grammar_limits.h"

namespace baton::grammar {
namespace {

// Ranges of characters need several edges for a state.
constexpr size_t kMaxGraphEdges = size_t{4} * kMaxGraphStates;

}  // namespace

int32_t RuleGraph::AddRule(std::string_view name) {
  const int32_t start = AddState();
  const int32_t accept = AddState();
  rules_.push_back({std::string(name), start, accept});
  return num_rules() - 1;
}

int32_t RuleGraph::AddState() {
  if (num_states() >= kMaxGraphStates) {
    is_full_ = true;
    return num_states() - 1;
  }
  first_edge_.push_back(-1);
  return num_states() - 1;
}

void RuleGraph::AddEdge(int32_t from, const Edge& edge) {
  if (edges_.size() >= kMaxGraphEdges) is_full_ = true;
  if (is_full_) return;
  edges_.push_back(edge);
  edges_.back().next = first_edge_[from];
  first_edge_[from] = static_cast<int32_t>(edges_.size()) - 1;
}

void RuleGraph::AddBytes(int32_t from, uint8_t low, uint8_t high, int32_t to) {
  AddEdge(from, {EdgeKind::kBytes, low, high, -1, to, -1});
}

void RuleGraph::AddEmpty(int32_t from, int32_t to) { AddEdge(from, {EdgeKind::kEmpty, 0, 0, -1, to, -1}); }

void RuleGraph::AddCall(int32_t from, int32_t rule, int32_t to) {
  AddEdge(from, {EdgeKind::kCall, 0, 0, rule, to, -1});
}

int32_t RuleGraph::Bytes(int32_t from, uint8_t low, uint8_t high) {
  const int32_t to = AddState();
  AddBytes(from, low, high, to);
  return to;
}

int32_t RuleGraph::Call(int32_t from, int32_t rule) {
  const int32_t to = AddState();
  AddCall(from, rule, to);
  return to;
}

int32_t RuleGraph::Text(int32_t from, std::string_view text) {
  for (const char c : text) from = Bytes(from, ToByte(c), ToByte(c));
  return from;
}

int32_t RuleGraph::Optional(int32_t from, char byte) {
  const int32_t to = AddState();
  AddByte(from, byte, to);
  AddEmpty(from, to);
  return to;
}

absl::Status RuleGraph::Check() const {
  if (!is_full_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the grammar needs more than ", kMaxGraphStates, " positions"));
}

}  // namespace baton::grammar
