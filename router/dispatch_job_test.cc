#include "router/dispatch_job.h"

#include <limits>
#include <optional>

#include "common/random.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

TEST(ComputePhasesTest, TheRestGoesToThePhaseThatItEndedIn) {
  PhaseMarks marks{.arrived = 10, .placed = {}, .admitted = {}, .first_token = {}, .committed = {}};
  EXPECT_EQ(ComputePhases(marks, 100).queue_ns, 90);
  marks.placed = 20;
  EXPECT_EQ(ComputePhases(marks, 100).admission_ns, 80);
  marks.admitted = 30;
  EXPECT_EQ(ComputePhases(marks, 100).prefill_ns, 70);
  marks.first_token = 50;
  EXPECT_EQ(ComputePhases(marks, 100).transfer_ns, 50);
  marks.committed = 60;
  EXPECT_EQ(ComputePhases(marks, 100).transfer_ns, 10);
  EXPECT_EQ(ComputePhases(marks, 100).decode_ns, 40);
}

TEST(ComputePhasesTest, AnEarlyCommitLeavesNoTransfer) {
  const PhaseMarks marks{.arrived = 0, .placed = 1, .admitted = 2, .first_token = 10, .committed = 8};
  EXPECT_EQ(ComputePhases(marks, 20).transfer_ns, 0);
  EXPECT_EQ(ComputePhases(marks, 20).decode_ns, 10);
}

TEST(PhaseMarksTest, AWordThatCameLateIsDatedByWhatTheWorkerMeasured) {
  PhaseMarks marks{.arrived = 0, .placed = 10, .admitted = 25, .first_token = 50, .committed = 65};
  marks.NoteComputed(/*prompt=*/true, 30, 50);
  EXPECT_EQ(marks.admitted, 20);
  marks.NoteComputed(/*prompt=*/false, 40, 100);
  EXPECT_EQ(marks.committed, 60);
}

TEST(PhaseMarksTest, AReportThatIsLateItselfOrUntrueChangesNothingThatIsKnownBetter) {
  PhaseMarks marks{.arrived = 0, .placed = 10, .admitted = 25, .first_token = 50, .committed = {}};
  marks.NoteComputed(/*prompt=*/true, 20, 50);
  EXPECT_EQ(marks.admitted, 25);
  marks.NoteComputed(/*prompt=*/true, -20, 20);
  EXPECT_EQ(marks.admitted, 20);
  marks.NoteComputed(/*prompt=*/true, std::numeric_limits<int64_t>::max(), 50);
  EXPECT_EQ(marks.admitted, 10);
  marks.NoteComputed(/*prompt=*/false, 20, 50);
  EXPECT_EQ(marks.committed, std::nullopt);
}

TEST(ComputePhasesTest, WithoutAdmissionTheFirstTokenEndsIt) {
  const PhaseMarks marks{.arrived = 0, .placed = 1, .admitted = {}, .first_token = 10, .committed = 12};
  EXPECT_EQ(ComputePhases(marks, 20).admission_ns, 9);
  EXPECT_EQ(ComputePhases(marks, 20).prefill_ns, 0);
}

TEST(ComputePhasesTest, PhasesAddUpWhateverIsSet) {
  constexpr uint64_t kSeed = 20240607;
  SeededRandom random(kSeed);
  const auto maybe = [&]() -> std::optional<TimeNs> {
    if (random.Below(3) == 0) return std::nullopt;
    return 1000 + static_cast<TimeNs>(random.Below(100));
  };
  for (int i = 0; i < 10'000; ++i) {
    const PhaseMarks marks{
        .arrived = 1000, .placed = maybe(), .admitted = maybe(), .first_token = maybe(), .committed = maybe()};
    const TimeNs end = 1100;
    const PhaseTimes phases = ComputePhases(marks, end);
    const int64_t sum =
        phases.queue_ns + phases.admission_ns + phases.prefill_ns + phases.transfer_ns + phases.decode_ns;
    ASSERT_EQ(sum, end - marks.arrived) << "seed " << kSeed << ", case " << i;
    for (const int64_t part :
         {phases.queue_ns, phases.admission_ns, phases.prefill_ns, phases.transfer_ns, phases.decode_ns}) {
      ASSERT_GE(part, 0) << "seed " << kSeed << ", case " << i;
    }
  }
}

}  // namespace
}  // namespace baton::router
