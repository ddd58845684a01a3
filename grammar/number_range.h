// Numbers within bounds, digit by digit.
#ifndef BATON_GRAMMAR_NUMBER_RANGE_H_
#define BATON_GRAMMAR_NUMBER_RANGE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "grammar/automaton.h"
#include "grammar/json_value.h"

namespace baton::grammar {

struct NumberBounds {
  struct Bound {
    Decimal value;
    bool is_exclusive = false;
  };
  std::optional<Bound> lower;
  std::optional<Bound> upper;

  bool empty() const { return !lower.has_value() && !upper.has_value(); }
  // Keeps the narrower bound of each side.
  void Narrow(const NumberBounds& other);
};

// JSON numbers within the bounds, exactly, written without an exponent; integers without a point.
absl::StatusOr<Automaton> NumbersWithin(const NumberBounds& bounds, bool is_integer, CompileBudget* budget);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_NUMBER_RANGE_H_
