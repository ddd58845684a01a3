// A fault that a test plants in a worker: BATON_TEST_FAULT=abort:17000 kills the process, by its own fault, in each
// step of its engine that has a row of token 17000. Without that variable a step costs one comparison.
#ifndef BATON_COMMON_TEST_FAULT_H_
#define BATON_COMMON_TEST_FAULT_H_

#include <cstdint>

#include "absl/types/span.h"

namespace baton {

// Before a step with these rows. The kinds of faults are
//   abort      a check that fails
//   segv       a bad access
//   overflow   a stack that is full
void TestFault(absl::Span<const int32_t> tokens);

}  // namespace baton

#endif  // BATON_COMMON_TEST_FAULT_H_
