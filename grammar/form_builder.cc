#include "grammar/form_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "grammar/grammar_limits.h"
#include "grammar/left_recursion.h"

namespace baton::grammar {

absl::StatusOr<GrammarForm> FormBuilder::Run(int32_t root) {
  BATON_RETURN_IF_ERROR(CollectRules(root));
  ComputeNeeds();
  if (states_[rules_[0].start].need >= kNever) {
    return absl::InvalidArgumentError("no output satisfies the grammar");
  }
  DropDeadEdges();
  MarkTailCalls();
  ComputeNeeds();
  if (const int32_t need = states_[rules_[0].start].need; need > kMaxStackDepth) {
    return absl::ResourceExhaustedError(
        absl::StrCat("every output nests ", need, " rules within rules, limit ", kMaxStackDepth));
  }
  BATON_RETURN_IF_ERROR(RefuseLeftRecursion());
  return Flatten();
}

int32_t FormBuilder::IndexOf(int32_t rule) {
  const auto [it, is_new] = index_of_.try_emplace(rule, static_cast<int32_t>(rules_.size()));
  if (is_new) rules_.push_back({rule});
  return it->second;
}

absl::Status FormBuilder::CollectRules(int32_t root) {
  Determinizer determinizer(graph_, &budget_);
  IndexOf(root);
  for (size_t i = 0; i < rules_.size(); ++i) {
    const RuleGraph::Rule& rule = graph_.rule(rules_[i].id);
    BATON_ASSIGN_OR_RETURN(Automaton automaton, determinizer.Run(rule.start, rule.accept));
    const auto offset = static_cast<int32_t>(states_.size());
    rules_[i].start = offset;
    for (Automaton::State& from : automaton.states) {
      State& state = states_.emplace_back();
      state.is_final = from.is_final;
      state.bytes = std::move(from.bytes);
      for (auto& edge : state.bytes) edge.to += offset;
      for (const auto& edge : from.calls) state.calls.push_back({IndexOf(edge.rule), edge.to + offset});
    }
  }
  return absl::OkStatus();
}

void FormBuilder::ComputeNeeds() {
  // A state is settled once, with its smallest need. What waits for it: states with a byte edge to it, and calls that
  // return to it or begin at it.
  struct Call {
    int32_t from;
    const CallEdge* edge;
  };
  std::vector<std::vector<int32_t>> byte_sources(states_.size());
  std::vector<std::vector<Call>> waiting(states_.size());
  std::vector<std::vector<int32_t>> buckets(1);
  const auto offer = [&buckets](int32_t state, int32_t need) {
    if (need >= static_cast<int32_t>(buckets.size())) buckets.resize(need + 1);
    buckets[need].push_back(state);
  };
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    const auto from = static_cast<int32_t>(i);
    state.need = kNever;
    for (const auto& edge : state.bytes) byte_sources[edge.to].push_back(from);
    for (const auto& edge : state.calls) {
      waiting[rules_[edge.rule].start].push_back({from, &edge});
      if (!edge.is_tail) waiting[edge.to].push_back({from, &edge});
    }
    if (state.is_final) offer(from, 0);
  }
  for (size_t need = 0; need < buckets.size(); ++need) {
    while (!buckets[need].empty()) {
      const int32_t settled = buckets[need].back();
      buckets[need].pop_back();
      if (states_[settled].need < kNever) continue;
      states_[settled].need = static_cast<int32_t>(need);
      for (const int32_t from : byte_sources[settled]) offer(from, static_cast<int32_t>(need));
      for (const auto& [from, edge] : waiting[settled]) {
        const int32_t inner = states_[rules_[edge->rule].start].need;
        const int32_t after = edge->is_tail ? 0 : states_[edge->to].need;
        if (inner >= kNever || after >= kNever) continue;
        offer(from, std::max(edge->is_tail ? inner : inner + 1, after));
      }
    }
  }
}

void FormBuilder::DropDeadEdges() {
  for (State& state : states_) {
    std::erase_if(state.bytes, [this](const auto& edge) { return states_[edge.to].need >= kNever; });
    std::erase_if(state.calls, [this](const CallEdge& edge) {
      return states_[edge.to].need >= kNever || states_[rules_[edge.rule].start].need >= kNever;
    });
  }
}

void FormBuilder::MarkTailCalls() {
  for (State& state : states_) {
    for (CallEdge& edge : state.calls) {
      const State& to = states_[edge.to];
      edge.is_tail = to.is_final && to.bytes.empty() && to.calls.empty();
    }
  }
}

std::vector<bool> FormBuilder::FindNullable() const {
  // Which states reach the end of their rule without a byte, through calls of rules that are nullable themselves.
  std::vector<bool> is_nullable(states_.size(), false);
  std::vector<std::vector<std::pair<int32_t, const CallEdge*>>> waiting(states_.size());
  std::vector<int32_t> todo;
  for (size_t i = 0; i < states_.size(); ++i) {
    for (const auto& edge : states_[i].calls) {
      waiting[edge.to].push_back({static_cast<int32_t>(i), &edge});
      waiting[rules_[edge.rule].start].push_back({static_cast<int32_t>(i), &edge});
    }
    if (states_[i].is_final) todo.push_back(static_cast<int32_t>(i));
  }
  while (!todo.empty()) {
    const int32_t state = todo.back();
    todo.pop_back();
    if (is_nullable[state]) continue;
    is_nullable[state] = true;
    for (const auto& [from, edge] : waiting[state]) {
      if (is_nullable[edge->to] && is_nullable[rules_[edge->rule].start]) todo.push_back(from);
    }
  }
  return is_nullable;
}

absl::Status FormBuilder::RefuseLeftRecursion() const {
  const std::vector<bool> is_nullable = FindNullable();
  LeftCalls calls(static_cast<int32_t>(rules_.size()));
  std::vector<int32_t> seen(states_.size(), -1);
  for (int32_t rule = 0; rule < static_cast<int32_t>(rules_.size()); ++rule) {
    std::vector<int32_t> todo = {rules_[rule].start};
    while (!todo.empty()) {
      const int32_t state = todo.back();
      todo.pop_back();
      if (std::exchange(seen[state], rule) == rule) continue;
      for (const CallEdge& edge : states_[state].calls) {
        calls.Add(rule, edge.rule, edge.is_tail);
        if (is_nullable[rules_[edge.rule].start]) todo.push_back(edge.to);
      }
    }
  }
  const int32_t culprit = calls.FindGrowingCircle();
  if (culprit < 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("left recursion is not supported: rule ",
                                               graph_.rule(rules_[culprit].id).name, " begins with itself"));
}

GrammarForm FormBuilder::Flatten() const {
  GrammarForm form;
  form.start = rules_[0].start;
  for (const State& state : states_) {
    form.states.push_back(
        {static_cast<int32_t>(form.bytes.size()), static_cast<int32_t>(form.calls.size()), state.need, state.is_final});
    for (const auto& edge : state.bytes) form.bytes.push_back({edge.low, edge.high, edge.to});
    for (const auto& edge : state.calls) {
      form.calls.push_back({rules_[edge.rule].start, edge.is_tail ? -1 : edge.to});
    }
  }
  form.states.push_back({static_cast<int32_t>(form.bytes.size()), static_cast<int32_t>(form.calls.size()), 0, false});
  AssignClasses(&form);
  return form;
}

void FormBuilder::AssignClasses(GrammarForm* form) const {
  std::array<bool, 257> begins = {};
  for (const auto& edge : form->bytes) {
    begins[edge.low] = true;
    begins[edge.high + 1] = true;
  }
  int32_t current = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++current;
    form->class_of_byte[byte] = static_cast<uint8_t>(current);
  }
  form->num_classes = current + 1;
}

absl::StatusOr<GrammarForm> BuildForm(const RuleGraph& graph, int32_t root, CompileBudget* budget) {
  BATON_RETURN_IF_ERROR(graph.Check());
  return FormBuilder(graph, budget).Run(root);
}

}  // namespace baton::grammar
