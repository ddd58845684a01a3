#include "engine/cpu_model.h"

#include <sched.h>

#include "gtest/gtest.h"

namespace baton::engine {
namespace {

TEST(KernelThreadsTest, AskingForNoneGivesOneForEachCoreThatTheProcessMayUse) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(KernelThreads(0), CPU_COUNT(&all));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(KernelThreads(0), 1);
  EXPECT_EQ(KernelThreads(3), 3);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

}  // namespace
}  // namespace baton::engine
