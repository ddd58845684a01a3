#include "grammar/automaton.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace baton::grammar {

int32_t Automaton::Next(int32_t state, uint8_t byte) const {
  for (const ByteEdge& edge : states[state].bytes) {
    if (byte < edge.low) return -1;
    if (byte <= edge.high) return edge.to;
  }
  return -1;
}

bool Automaton::Matches(std::string_view text) const {
  int32_t state = 0;
  for (const char c : text) {
    state = Next(state, static_cast<uint8_t>(c));
    if (state < 0) return false;
  }
  return states[state].is_final;
}

absl::StatusOr<Automaton> Determinizer::Run(int32_t start, int32_t accept) {
  accept_ = accept;
  automaton_ = {};
  sets_.clear();
  ids_.clear();
  StateOf({start});
  for (size_t id = 0; id < sets_.size(); ++id) {
    Expand(static_cast<int32_t>(id));
    BATON_RETURN_IF_ERROR(budget_.Check());
  }
  return std::move(automaton_);
}

int32_t Determinizer::StateOf(const Set& kernel) {
  Set closure = Closure(kernel);
  const auto [it, is_new] = ids_.try_emplace(std::move(closure), static_cast<int32_t>(sets_.size()));
  if (is_new) {
    sets_.push_back(it->first);
    automaton_.states.emplace_back();
    automaton_.states.back().is_final = std::binary_search(it->first.begin(), it->first.end(), accept_);
    budget_.AddStates(1);
    budget_.Spend(16);
  }
  return it->second;
}

Determinizer::Set Determinizer::Closure(const Set& kernel) {
  seen_.resize(graph_.num_states(), 0);
  if (++round_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    round_ = 1;
  }
  Set closure;
  Set todo = kernel;
  while (!todo.empty()) {
    const int32_t state = todo.back();
    todo.pop_back();
    if (std::exchange(seen_[state], round_) == round_) continue;
    bool is_needed = state == accept_;
    for (int32_t id = graph_.first_edge(state); id >= 0; id = graph_.edge(id).next) {
      const RuleGraph::Edge& edge = graph_.edge(id);
      if (edge.kind == RuleGraph::EdgeKind::kEmpty) {
        todo.push_back(edge.to);
      } else {
        is_needed = true;
      }
      budget_.Spend(1);
    }
    budget_.Spend(1);
    if (is_needed) closure.push_back(state);
  }
  std::sort(closure.begin(), closure.end());
  return closure;
}

void Determinizer::Expand(int32_t id) {
  SortEdges(sets_[id]);
  AddByteEdges(id);
  AddCallEdges(id);
}

void Determinizer::SortEdges(const Set& states) {
  bytes_.clear();
  calls_.clear();
  for (const int32_t state : states) {
    for (int32_t id = graph_.first_edge(state); id >= 0; id = graph_.edge(id).next) {
      const RuleGraph::Edge& edge = graph_.edge(id);
      if (edge.kind == RuleGraph::EdgeKind::kBytes) bytes_.push_back({edge.low, edge.high, edge.to});
      if (edge.kind == RuleGraph::EdgeKind::kCall) calls_.push_back({edge.rule, edge.to});
    }
  }
  std::sort(calls_.begin(), calls_.end(), [](const auto& a, const auto& b) { return a.rule < b.rule; });
}

void Determinizer::AddByteEdges(int32_t id) {
  if (bytes_.empty()) return;
  // Where the answer may change from one byte to the next.
  std::vector<int> limits;
  for (const auto& edge : bytes_) {
    limits.push_back(edge.low);
    limits.push_back(edge.high + 1);
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  const auto bucket_of = [&limits](int byte) {
    return std::lower_bound(limits.begin(), limits.end(), byte) - limits.begin();
  };
  for (const auto& edge : bytes_) {
    const auto end = bucket_of(edge.high + 1);
    for (auto bucket = bucket_of(edge.low); bucket < end; ++bucket) {
      buckets_[bucket].push_back(edge.to);
      budget_.Spend(1);
    }
  }
  for (size_t i = 0; i + 1 < limits.size(); ++i) {
    Set targets = std::exchange(buckets_[i], {});
    if (targets.empty() || budget_.is_spent()) continue;
    const int32_t to = StateOf(targets);
    const auto low = static_cast<uint8_t>(limits[i]);
    const auto high = static_cast<uint8_t>(limits[i + 1] - 1);
    auto& edges = automaton_.states[id].bytes;
    if (!edges.empty() && edges.back().to == to && edges.back().high + 1 == low) {
      edges.back().high = high;
    } else {
      edges.push_back({low, high, to});
    }
  }
}

void Determinizer::AddCallEdges(int32_t id) {
  for (size_t begin = 0; begin < calls_.size() && !budget_.is_spent();) {
    const int32_t rule = calls_[begin].rule;
    Set targets;
    for (; begin < calls_.size() && calls_[begin].rule == rule; ++begin) targets.push_back(calls_[begin].to);
    const int32_t to = StateOf(targets);
    automaton_.states[id].calls.push_back({rule, to});
  }
}

namespace {

// Walks two automata side by side. A state of the second may be -1 where it has none any more.
class PairBuilder {
 public:
  PairBuilder(const Automaton& a, const Automaton& b, bool is_difference, CompileBudget* budget)
      : a_(a), b_(b), is_difference_(is_difference), budget_(*budget) {}

  absl::StatusOr<Automaton> Run() {
    StateOf(0, 0);
    for (size_t id = 0; id < pairs_.size(); ++id) {
      Expand(static_cast<int32_t>(id));
      BATON_RETURN_IF_ERROR(budget_.Check());
    }
    return std::move(automaton_);
  }

 private:
  int32_t StateOf(int32_t a, int32_t b) {
    const auto [it, is_new] = ids_.try_emplace({a, b}, static_cast<int32_t>(pairs_.size()));
    if (is_new) {
      pairs_.push_back({a, b});
      const bool is_final_in_b = b >= 0 && b_.states[b].is_final;
      automaton_.states.emplace_back();
      automaton_.states.back().is_final = a_.states[a].is_final && is_final_in_b != is_difference_;
      budget_.AddStates(1);
    }
    return it->second;
  }

  void Expand(int32_t id) {
    const auto [a, b] = pairs_[id];
    std::vector<Automaton::ByteEdge> edges;
    for (const Automaton::ByteEdge& edge : a_.states[a].bytes) {
      int low = edge.low;
      while (low <= edge.high) {
        const auto [high, to_b] = InB(b, low, edge.high);
        if (to_b >= 0 || is_difference_) {
          edges.push_back({static_cast<uint8_t>(low), static_cast<uint8_t>(high), StateOf(edge.to, to_b)});
        }
        budget_.Spend(4);
        low = high + 1;
      }
    }
    automaton_.states[id].bytes = std::move(edges);
  }

  // The last byte up to `high` for which the second automaton does the same as for `low`, and what it does.
  std::pair<int, int32_t> InB(int32_t b, int low, int high) const {
    if (b < 0) return {high, -1};
    for (const Automaton::ByteEdge& edge : b_.states[b].bytes) {
      if (edge.high < low) continue;
      if (edge.low > low) return {std::min(high, edge.low - 1), -1};
      return {std::min<int>(high, edge.high), edge.to};
    }
    return {high, -1};
  }

  const Automaton& a_;
  const Automaton& b_;
  const bool is_difference_;
  CompileBudget& budget_;
  Automaton automaton_;
  std::vector<std::pair<int32_t, int32_t>> pairs_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int32_t> ids_;
};

}  // namespace

absl::StatusOr<Automaton> Intersect(const Automaton& a, const Automaton& b, CompileBudget* budget) {
  return PairBuilder(a, b, /*is_difference=*/false, budget).Run();
}

absl::StatusOr<Automaton> Subtract(const Automaton& a, const Automaton& b, CompileBudget* budget) {
  return PairBuilder(a, b, /*is_difference=*/true, budget).Run();
}

void Embed(const Automaton& automaton, int32_t from, int32_t to, RuleGraph* graph) {
  std::vector<int32_t> states(automaton.states.size());
  for (int32_t& state : states) {
    state = graph->AddState();
    if (graph->is_full()) return;
  }
  graph->AddEmpty(from, states[0]);
  for (size_t i = 0; i < states.size(); ++i) {
    for (const auto& edge : automaton.states[i].bytes) graph->AddBytes(states[i], edge.low, edge.high, states[edge.to]);
    for (const auto& edge : automaton.states[i].calls) graph->AddCall(states[i], edge.rule, states[edge.to]);
    if (automaton.states[i].is_final) graph->AddEmpty(states[i], to);
  }
}

}  // namespace baton::grammar
