// How numbers are shown to people.
#ifndef BATON_COMMON_PLAIN_NUMBER_H_
#define BATON_COMMON_PLAIN_NUMBER_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace baton {

// 1048576 and 0.5, never 1.04858e+06. Six significant digits of a number that is no integer.
inline std::string PlainNumber(double value) {
  constexpr double kExactIntegers = 9007199254740992.0;
  if (std::abs(value) <= kExactIntegers && value == std::trunc(value)) return absl::StrCat(static_cast<int64_t>(value));
  return absl::StrCat(value);
}

}  // namespace baton

#endif  // BATON_COMMON_PLAIN_NUMBER_H_
