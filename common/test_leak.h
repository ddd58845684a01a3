// A leak that a test plants in a worker, to see whether it is found: BATON_TEST_LEAK=job. Without that variable a point
// costs one comparison.
#ifndef BATON_COMMON_TEST_LEAK_H_
#define BATON_COMMON_TEST_LEAK_H_

#include <string_view>

namespace baton {

// Whether the environment says that what `point` gives back stays lost. The points are
//   job        a job that has ended at a decode worker keeps its blocks
//   sequence   likewise, and the worker forgets whose they are
//   memory     a job that has ended at a decode worker keeps a KiB, for tests/e2e/test_soak.py
bool TestLeak(std::string_view point);

}  // namespace baton

#endif  // BATON_COMMON_TEST_LEAK_H_
