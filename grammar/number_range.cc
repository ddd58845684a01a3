#include "grammar/number_range.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "grammar/rule_graph.h"

namespace baton::grammar {
namespace {

// How a number without sign must compare with a bound without sign.
enum class Comparison : uint8_t { kAny, kLess, kNotGreater, kGreater, kNotLess };

bool Meets(int order, Comparison wanted) {
  switch (wanted) {
    case Comparison::kAny:
      return true;
    case Comparison::kLess:
      return order < 0;
    case Comparison::kNotGreater:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    case Comparison::kNotLess:
      return order >= 0;
  }
  return false;
}

// The automaton of numbers without sign that compare as wanted. It compares while it reads.
class MagnitudeBuilder {
 public:
  MagnitudeBuilder(const Decimal& bound, Comparison wanted, bool is_integer)
      : bound_(bound), wanted_(wanted), is_integer_(is_integer) {}

  Automaton Run() {
    StateOf({Phase::kBegin, 0, 0});
    for (size_t id = 0; id < keys_.size(); ++id) Expand(static_cast<int32_t>(id));
    return std::move(automaton_);
  }

 private:
  enum class Phase : uint8_t { kBegin, kZero, kInteger, kPoint, kFraction };
  struct Key {
    Phase phase;
    int digits;  // Of this phase, not counted beyond the bound's by more than one.
    int order;   // Of the digits so far, when both had as many.
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  int32_t StateOf(const Key& key) {
    const auto [it, is_new] = ids_.try_emplace(key, static_cast<int32_t>(keys_.size()));
    if (is_new) {
      keys_.push_back(key);
      automaton_.states.emplace_back();
      automaton_.states.back().is_final = IsFinal(key);
    }
    return it->second;
  }

  int whole_digits() const { return static_cast<int>(bound_.integer.size()); }
  int fraction_digits() const { return static_cast<int>(bound_.fraction.size()); }

  // Of the integer part, which has ended.
  int WholeOrder(const Key& key) const {
    if (key.digits != whole_digits()) return key.digits < whole_digits() ? -1 : 1;
    return key.order;
  }

  bool IsFinal(const Key& key) const {
    if (key.phase == Phase::kBegin || key.phase == Phase::kPoint) return false;
    if (key.phase == Phase::kFraction) {
      return Meets(key.order == 0 && key.digits < fraction_digits() ? -1 : key.order, wanted_);
    }
    const int order = WholeOrder(key);
    return Meets(order == 0 && fraction_digits() > 0 ? -1 : order, wanted_);
  }

  void Expand(int32_t id) {
    const Key key = keys_[id];
    if (key.phase == Phase::kZero || key.phase == Phase::kInteger) {
      if (!is_integer_) AddEdge(id, '.', {Phase::kPoint, 0, WholeOrder(key)});
    }
    if (key.phase == Phase::kZero) return;
    for (char digit = '0'; digit <= '9'; ++digit) AddEdge(id, digit, After(key, digit));
  }

  Key After(const Key& key, char digit) const {
    const bool is_whole = key.phase == Phase::kBegin || key.phase == Phase::kInteger;
    const std::string_view digits = is_whole ? bound_.integer : bound_.fraction;
    const auto index = static_cast<size_t>(key.digits);
    int order = key.order;
    if (order == 0) {
      const char other = index < digits.size() ? digits[index] : '0';
      order = digit == other ? 0 : (digit < other ? -1 : 1);
    }
    const int count = std::min(key.digits + 1, static_cast<int>(digits.size()) + 1);
    if (!is_whole) return {Phase::kFraction, count, order};
    return {key.phase == Phase::kBegin && digit == '0' ? Phase::kZero : Phase::kInteger, count, order};
  }

  void AddEdge(int32_t from, char byte, const Key& to) {
    const auto value = static_cast<uint8_t>(byte);
    const int32_t target = StateOf(to);
    automaton_.states[from].bytes.push_back({value, value, target});
  }

  const Decimal& bound_;
  const Comparison wanted_;
  const bool is_integer_;
  Automaton automaton_;
  std::map<Key, int32_t> ids_;
  std::vector<Key> keys_;
};

// Numbers on one side of a bound.
absl::StatusOr<Automaton> OneSide(const NumberBounds::Bound& bound, bool is_lower, bool is_integer,
                                  CompileBudget* budget) {
  const bool is_exclusive = bound.is_exclusive;
  const Comparison outward = is_exclusive ? Comparison::kGreater : Comparison::kNotLess;
  const Comparison inward = is_exclusive ? Comparison::kLess : Comparison::kNotGreater;
  RuleGraph graph;
  const int32_t start = graph.AddState();
  const int32_t accept = graph.AddState();
  const int32_t minus = graph.AddState();
  graph.AddByte(start, '-', minus);
  const auto add = [&](int32_t from, Comparison wanted) {
    Embed(MagnitudeBuilder(bound.value, wanted, is_integer).Run(), from, accept, &graph);
  };
  // The sign decides alone where the number and its bound have different ones.
  const bool is_negative = bound.value.is_negative;
  if (is_lower) {
    add(start, is_negative ? Comparison::kAny : outward);
    if (is_negative) add(minus, inward);
  } else {
    if (!is_negative) add(start, inward);
    // -0 is not below 0.
    const bool needs_order = is_negative || (bound.value.is_zero() && is_exclusive);
    add(minus, needs_order ? outward : Comparison::kAny);
  }
  BATON_RETURN_IF_ERROR(graph.Check());
  return Determinizer(graph, budget).Run(start, accept);
}

}  // namespace

void NumberBounds::Narrow(const NumberBounds& other) {
  const auto narrow = [](std::optional<Bound>& bound, const std::optional<Bound>& with, bool is_lower) {
    if (!with.has_value()) return;
    if (bound.has_value() && bound->value == with->value) {
      bound->is_exclusive |= with->is_exclusive;
    } else if (!bound.has_value() || IsLess(bound->value, with->value) == is_lower) {
      bound = with;
    }
  };
  narrow(lower, other.lower, true);
  narrow(upper, other.upper, false);
}

absl::StatusOr<Automaton> NumbersWithin(const NumberBounds& bounds, bool is_integer, CompileBudget* budget) {
  if (!bounds.upper.has_value()) return OneSide(*bounds.lower, true, is_integer, budget);
  BATON_ASSIGN_OR_RETURN(Automaton below, OneSide(*bounds.upper, false, is_integer, budget));
  if (!bounds.lower.has_value()) return below;
  BATON_ASSIGN_OR_RETURN(const Automaton above, OneSide(*bounds.lower, true, is_integer, budget));
  return Intersect(above, below, budget);
}

}  // namespace baton::grammar
