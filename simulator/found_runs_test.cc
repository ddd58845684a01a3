// Runs that have found a bug, each with the bug. A change of the simulator may give a name another run; what must never
// come back has a unit test beside the code that was wrong.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "simulator/cluster.h"
#include "simulator/run_name.h"

namespace baton::simulator {
namespace {

struct FoundRun {
  const char* name;
  const char* bug;

  friend std::ostream& operator<<(std::ostream& out, const FoundRun& run) { return out << run.name; }
};

constexpr FoundRun kFoundRuns[] = {
    {"short 304 routers 1 kept 0",
     "a job with outputs was given up 2 s after its failure, while the only prefill worker drained"},
    {"short 922 routers 1 kept 0",
     "a job with outputs was given up 2 s after the only prefill worker, which drained, had fallen silent"},
    {"short 122", "a job that ended while its request could not be written left its client waiting"},
    {"short 407", "a job was forgotten while its client still waited for the journal, and the client was called slow"},
    {"short 5", "what a full disk had kept from being erased stayed in the journal"},
    {"short 879301008", "two mixed workers waited for ever for blocks that each held for a prompt of the other's"},
    {"long 2344491590", "the simulator cut the streams of all three probes of a pair"},
    {"long 2344489559",
     "a refusal behind a heartbeat made its worker look emptier than it was, so a request was placed there 43 times"},
};

class FoundRunTest : public ::testing::TestWithParam<FoundRun> {};

TEST_P(FoundRunTest, GoesWellNow) {
  const absl::StatusOr<RunOptions> options = ParseRunName(GetParam().name);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(RunSeed(*options).error, "") << "once: " << GetParam().bug;
}

INSTANTIATE_TEST_SUITE_P(All, FoundRunTest, ::testing::ValuesIn(kFoundRuns));

}  // namespace
}  // namespace baton::simulator
