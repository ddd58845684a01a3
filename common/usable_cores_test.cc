#include "common/usable_cores.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(UsableCoresTest, AThreadThatMayUseOneCoreHasOneWhateverTheMachineHas) {
  int cores = 0;
  std::thread([&cores] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    cores = CountUsableCores();
  }).join();
  EXPECT_EQ(cores, 1);
}

}  // namespace
}  // namespace baton
