// A partition between two processes that a test plants: BATON_TEST_PARTITION names a file, each line of which is a pid
// and a target, host:port, that this process cannot reach. Without that variable a call costs one comparison.
#ifndef BATON_COMMON_TEST_PARTITION_H_
#define BATON_COMMON_TEST_PARTITION_H_

#include <string>

namespace baton {

// The target itself; or, where the file says so now, one at which nobody listens. Any thread.
std::string TestTarget(const std::string& target);

}  // namespace baton

#endif  // BATON_COMMON_TEST_PARTITION_H_
