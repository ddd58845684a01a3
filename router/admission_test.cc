#include "router/admission.h"

#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  // Answers of two outputs, `output_ns` apart, to prompts that took `prompt_ns`.
  void See(int requests, int64_t prompt_ns, int64_t output_ns) {
    for (int i = 0; i < requests; ++i) {
      admission_.OnFirstToken(100, prompt_ns);
      admission_.OnOutputs(2, output_ns);
    }
  }
  static JobSpec Spec(TimeNs deadline, int32_t least_outputs) {
    JobSpec spec = *MakeJob(1, {.prompt_tokens = 100, .deadline = deadline});
    spec.least_outputs = least_outputs;
    return spec;
  }

  Admission admission_;
};

TEST_F(AdmissionTest, TheLineIsTooLongWhereTwiceOfItWithThePromptAndTheOutputsTakesLongerThanTheTime) {
  See(1'000, 50, 10);
  const Forecast forecast = {.line_ns = 3'000, .prompt_ns = 500};
  // Nine times between ten outputs.
  const int64_t needed_ns = 2 * 3'000 + 500 + 9 * 10;
  EXPECT_EQ(admission_.ExcessNs(forecast, needed_ns + 2, 10), 0);
  EXPECT_NEAR(static_cast<double>(admission_.ExcessNs(forecast, needed_ns - 1'000, 10)), 500, 1)
      << "each part of the line counts twice";
  EXPECT_EQ(admission_.ExcessNs(forecast, needed_ns - 80, 1), 0) << "only outputs that are certain count";
  EXPECT_EQ(admission_.ExcessNs(forecast, 100, 1), 3'000) << "it lacks time without any line";
}

TEST_F(AdmissionTest, NoLineIsTooLongOfWhichNothingIsKnown) {
  EXPECT_EQ(admission_.ExcessNs({.line_ns = 0, .prompt_ns = 1'000'000}, 1, 1), 0);
}

TEST_F(AdmissionTest, TheLastStartLeavesTheLeastTimesOfAPromptAndItsCertainOutputs) {
  constexpr TimeNs kDeadline = 1'000'000;
  EXPECT_EQ(admission_.LastStart(Spec(kDeadline, 10)), kDeadline) << "nothing is known yet";
  See(LeastTimes::kFewest, 5'000, 70);
  See(1, 3'000, 40);
  See(50, 5'000, 70);
  EXPECT_EQ(admission_.LastStart(Spec(kDeadline, 1)), kDeadline - 3'000);
  EXPECT_EQ(admission_.LastStart(Spec(kDeadline, 11)), kDeadline - 3'000 - 10 * 40);
  EXPECT_EQ(admission_.LastStart(Spec(kNever, 11)), kNever);
}

TEST_F(AdmissionTest, WhoIsRefusedOrDroppedIsToldWhyAndWhenToComeBack) {
  const absl::Status refused =
      RefusedForDeadline({.line_ns = 3 * kNsPerSecond, .prompt_ns = 0}, 2 * kNsPerSecond, 1'234);
  const absl::Status dropped = DroppedForDeadline(7 * kNsPerMs, 77);
  for (const absl::Status& status : {refused, dropped}) {
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    EXPECT_EQ(GetRefusalReason(status), RefusalReason::kDeadline);
  }
  EXPECT_EQ(GetRetryAfterMs(refused), 1'234);
  EXPECT_EQ(GetRetryAfterMs(dropped), 77);
}

}  // namespace
}  // namespace baton::router
