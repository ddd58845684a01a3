// Jobs that need more room than ever comes by itself: whose turn comes, what drains for them, and who is served
// meanwhile.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "common/kv_layout.h"
#include "common/testing/virtual_time.h"
#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/placing_queue.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PlacingHoldTest : public DispatcherTest {
 protected:
  static constexpr int kHalfPrompt = 50 * 16;
  static constexpr int kFullPrompt = 99 * 16;

  PlacingHoldTest() {
    options_.placing.max_passed_over = 2;
    options_.worker_silence_ms = 1'000'000;
  }

  // Worker 2 decodes half a pool for job 1, and job 2, which needs all of it, has been passed over as often as it may
  // be, by jobs 3 and 4.
  void HoldWorker2() {
    JoinPair();
    Submit(1, {.prompt_tokens = kHalfPrompt});
    PrefillDone(KeyOf(1), 70);
    Submit(2, {.prompt_tokens = kFullPrompt});
    for (const uint64_t job : {3, 4}) {
      Submit(job);
      PrefillDone(KeyOf(job), 70);
    }
    Actions();
  }
  void EndJobs(std::initializer_list<uint64_t> jobs) {
    for (const uint64_t job : jobs) DecodeDone(KeyOf(job));
    Actions();
  }
};

TEST_F(PlacingHoldTest, OnlyTheWorkerThatDrainsForAJobGetsNothingElse) {
  HoldWorker2();
  Submit(5);
  EXPECT_THAT(Actions(), IsEmpty());
  WorkerInfo small = MakeWorker(3, WorkerRole::kDecode);
  small.total_blocks = 10;
  Join(small);
  EXPECT_THAT(Actions(), ElementsAre("P1 5/1", "D3 5/1")) << "job 2 cannot use worker 3, and worker 1 need not wait";
  Submit(6, {.max_tokens = 1});
  EXPECT_THAT(Actions(), ElementsAre("solo1 6/1"));
}

TEST_F(PlacingHoldTest, NobodyGetsInWhileTheWorkerIsAskedForItsRoom) {
  HoldWorker2();
  EndJobs({1, 3});
  Submit(5);
  DecodeDone(KeyOf(4));
  EXPECT_THAT(Actions(), ElementsAre("4:1=71", "4:OK", "P1 2/1", "D2 2/1"));
  CallEnd(kP, KeyOf(2), absl::CancelledError("nobody fetches"));
  Refuse(kD, KeyOf(2));
  EXPECT_THAT(Actions(), IsEmpty()) << "a refusal does not end its hold";
  dispatcher().OnWorkerLoad(MakeWorkerId(2), {});
  EXPECT_THAT(Actions(), ElementsAre("P1 2/2", "D2 2/2"));
  Started(kD, KeyOf(2, 2));
  Started(kP, KeyOf(2, 2));
  Token(kP, KeyOf(2, 2), 0, 70, FinishReason::kStop);
  Finished(kP, KeyOf(2, 2));
  CallEnd(kP, KeyOf(2, 2));
  CallEnd(kD, KeyOf(2, 2), kCancelledCall);
  EXPECT_THAT(Actions(), ElementsAre("2:0=70", "-D2 2/2", "2:OK", "P1 5/1", "D2 5/1"));
}

TEST_F(PlacingHoldTest, TheHoldEndsWithItsJob) {
  HoldWorker2();
  Submit(5);
  EXPECT_THAT(Actions(), IsEmpty());
  dispatcher().Cancel(KeyOf(2).choice_key(), absl::CancelledError("the client left"));
  EXPECT_THAT(Actions(), ElementsAre("2:CANCELLED", "P1 5/1", "D2 5/1"));
}

TEST_F(PlacingHoldTest, AJobTakesRoomThatComesAtAnotherWorkerThanTheHolds) {
  HoldWorker2();
  Join(3, WorkerRole::kDecode);
  EXPECT_THAT(Actions(), ElementsAre("P1 2/1", "D3 2/1"));
}

TEST_F(PlacingHoldTest, TheHoldMovesWhenItsWorkerIsLost) {
  JoinPair();
  Join(3, WorkerRole::kDecode);
  for (const uint64_t job : {1, 2}) {
    Submit(job, {.prompt_tokens = kHalfPrompt});
    PrefillDone(KeyOf(job), 70);
  }
  Submit(3, {.prompt_tokens = kFullPrompt});
  for (const uint64_t job : {4, 5}) {
    Submit(job);
    PrefillDone(KeyOf(job), 70);
  }
  Actions();
  Submit(6);
  EXPECT_THAT(Actions(), ElementsAre("P1 6/1", "D3 6/1")) << "worker 2 is held";
  PrefillDone(KeyOf(6), 70);
  dispatcher().OnWorkerLost(MakeWorkerId(2), kBroken);
  Actions();
  Submit(7);
  EXPECT_THAT(Actions(), IsEmpty()) << "worker 3 is held now";
}

TEST_F(PlacingHoldTest, AfterAHoldNobodyHoldsAWorkerForAsLong) {
  HoldWorker2();
  AdvanceMs(300);
  dispatcher().Cancel(KeyOf(2).choice_key(), absl::CancelledError("the client left"));
  Submit(5, {.prompt_tokens = kFullPrompt});
  for (uint64_t job = 6; job <= 9; ++job) {
    Submit(job);
    PrefillDone(KeyOf(job), 70);
  }
  Actions();
  AdvanceMs(299);
  Submit(10);
  EXPECT_THAT(Actions(), ElementsAre("P1 10/1", "D2 10/1"));
  PrefillDone(KeyOf(10), 70);
  AdvanceMs(1);
  Submit(11);
  EXPECT_THAT(Actions(), ElementsAre("10:0=70"));
}

TEST_F(PlacingHoldTest, AJobThatWasPassedOverOftenEnoughKeepsItsTurnWhenItIsLateForTheTarget) {
  options_.placing.ttft_target_ms = 100;
  HoldWorker2();
  AdvanceMs(300);
  dispatcher().Cancel(KeyOf(2).choice_key(), absl::CancelledError("the client left"));
  Submit(5, {.prompt_tokens = kFullPrompt});
  for (const uint64_t job : {6, 7}) {
    Submit(job);
    PrefillDone(KeyOf(job), 70);
  }
  AdvanceMs(150);
  Submit(8, {.prompt_tokens = kFullPrompt});
  EndJobs({1, 3, 4, 6});
  DecodeDone(KeyOf(7));
  EXPECT_THAT(Actions(), ElementsAre("7:1=71", "7:OK", "P1 5/1", "D2 5/1"));
}

TEST_F(PlacingHoldTest, APromptLargerThanTheRoomBesidesTheHeadroomGetsItsTurnAtABusyMixedWorker) {
  WorkerInfo worker = MakeWorker(1, WorkerRole::kMixed);
  worker.headroom_blocks = 50;
  Join(worker);
  Submit(1);
  Token(kD, KeyOf(1), 0, 70);
  Submit(2, {.prompt_tokens = 60 * 16});
  EXPECT_THAT(Actions(), ElementsAre("local1 1/1", "1:0=70")) << "it is not sent where it would be refused";
  for (const uint64_t job : {3, 4}) {
    Submit(job);
    Token(kD, KeyOf(job), 0, 70);
  }
  Submit(5);
  EXPECT_THAT(Actions(), ElementsAre("local1 3/1", "3:0=70", "local1 4/1", "4:0=70"));
  EndJobs({1, 3});
  DecodeDone(KeyOf(4));
  EXPECT_THAT(Actions(), ElementsAre("4:1=71", "4:OK", "local1 2/1"));
}

TEST_F(PlacingHoldTest, AJobThatIsRefusedAsOftenAsItMayBePassedOverHasItsWorkerDrained) {
  JoinPair();
  Submit(1);
  PrefillDone(KeyOf(1), 70);
  Submit(2);
  for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
    CallEnd(kP, KeyOf(2, attempt), absl::CancelledError("nobody fetches"));
    Refuse(kD, KeyOf(2, attempt));
    Actions();
    if (attempt == 1) RunMs(20);
  }
  Submit(3);
  EXPECT_THAT(Actions(), IsEmpty()) << "a busy worker has refused job 2 twice";
  DecodeDone(KeyOf(1));
  EXPECT_THAT(Actions(), ElementsAre("1:1=71", "1:OK", "P1 2/3", "D2 2/3"));
  Submit(4);
  EXPECT_THAT(Actions(), IsEmpty());
  Started(kD, KeyOf(2, 3));
  EXPECT_THAT(Actions(), ElementsAre("P1 3/1", "D2 3/1", "P1 4/1", "D2 4/1"));
}

TEST_F(PlacingHoldTest, AnyNumberOfJobsThatDoNotFitKeepsNobodyFromBeingTried) {
  JoinPair();
  Submit(1, {.prompt_tokens = kHalfPrompt});
  PrefillDone(KeyOf(1), 70);
  for (uint64_t job = 2; job <= 200; ++job) {
    Submit(job, {.prompt_tokens = kFullPrompt - static_cast<int>(job)});
  }
  Actions();
  Submit(201);
  EXPECT_THAT(Actions(), ElementsAre("P1 201/1", "D2 201/1"));
}

// A prefill worker that drains for the job is held too, but only while the decode worker has room.
TEST_F(PlacingHoldTest, ThePrefillWorkerIsHeldLast) {
  JoinPair();
  Submit(1, {.prompt_tokens = 1000});
  EXPECT_THAT(Actions(), ElementsAre("P1 1/1", "D2 1/1"));
  for (const uint64_t job : {2, 3, 4}) Submit(job, {.prompt_tokens = 128});
  Started(kP, KeyOf(1), 980);
  EXPECT_THAT(Actions(), IsEmpty()) << "20 tokens are pending, 148 are too many";
  for (const uint64_t job : {5, 6}) Submit(job, {.prompt_tokens = 10});
  EXPECT_THAT(Actions(), ElementsAre("P1 5/1", "D2 5/1", "P1 6/1", "D2 6/1"));
  Submit(7, {.prompt_tokens = 10, .max_tokens = 1});
  EXPECT_THAT(Actions(), IsEmpty()) << "the prefill worker is held for job 2";
  for (const uint64_t job : {1, 5}) PrefillDone(KeyOf(job), 70);
  Actions();
  PrefillDone(KeyOf(6), 70);
  EXPECT_THAT(Actions(), ElementsAre("6:0=70", "P1 2/1", "D2 2/1"));
}

// Clients of small prompts beside one whose prompts need all of a decode worker, on virtual time.
class BusyQueue {
 public:
  BusyQueue(uint64_t seed, int decode_workers)
      : random_(seed), queue_(std::make_unique<PlacingQueue>(options_, clock_, registry_, ledger_, health_)) {
    WorkerInfo prefill = MakeWorker(1, WorkerRole::kPrefill);
    prefill.chunk_tokens = 1'000'000;
    EXPECT_TRUE(registry_.Join(prefill, clock_.Now()).ok());
    for (int i = 0; i < decode_workers; ++i) {
      EXPECT_TRUE(registry_.Join(MakeWorker(static_cast<uint64_t>(2 + i), WorkerRole::kDecode), clock_.Now()).ok());
    }
    queue_->OnWorkersChanged();
  }

  void Run(int64_t ms) {
    for (int i = 0; i < 3; ++i) SubmitLarge();
    for (int64_t at = 0; at < ms; at += 1 + static_cast<int64_t>(random_.Below(30))) {
      clock_.After(at * kNsPerMs, [this] { Submit(1 + static_cast<int>(random_.Below(100)), /*large=*/false); });
    }
    const TimeNs end = clock_.Now() + ms * kNsPerMs;
    Place();
    TimeNs before = clock_.Now();
    bool held = false;
    while (clock_.RunNext(std::min(end, queue_->NextTimer())) || clock_.Now() < end) {
      (held ? held_ns_ : free_ns_) += clock_.Now() - before;
      before = clock_.Now();
      queue_->OnTimer();
      Place();
      held = queue_->held() != nullptr;
    }
  }

  int small_started() const { return small_started_; }
  int large_started() const { return large_started_; }
  TimeNs longest_wait() const { return longest_wait_; }
  int64_t held_ns() const { return held_ns_; }
  int64_t free_ns() const { return free_ns_; }

 private:
  static constexpr int64_t kMaxRunMs = 300;

  struct QueuedJob {
    DispatchJob job;
    bool large = false;
  };

  void SubmitLarge() { Submit(95 * 16 + static_cast<int>(random_.Below(4 * 16)), /*large=*/true); }
  void Submit(int prompt_tokens, bool large) {
    const uint64_t n = ++last_job_;
    QueuedJob& queued = jobs_[n];
    queued.large = large;
    queued.job.spec = MakeJob(n, {.prompt_tokens = prompt_tokens});
    queued.job.place_in_line = n;
    queued.job.marks.arrived = clock_.Now();
    queue_->Add(queued.job);
  }

  void Place() {
    queue_->PlaceJobs([] { return true; }, [this](DispatchJob& job) { Start(job); },
                      [](DispatchJob& job) { ADD_FAILURE() << "refused " << job.spec->id.low; });
  }

  // Calls are asked for room at once, and some are refused.
  void Start(DispatchJob& job) {
    const CallKey key = {.side = Side::kDecode, .key = KeyOf(job.spec->id.low, ++job.attempt)};
    ledger_.Open(key, {.worker = job.pair.decode, .blocks = BlocksForTokens(job.spec->prompt_tokens())});
    const bool refused = random_.Below(10) == 0;
    clock_.After(kNsPerMs, [this, key, refused] {
      QueuedJob& queued = jobs_.at(key.key.job.low);
      if (!refused) return Run(queued, key);
      ledger_.Close(key, absl::ResourceExhaustedError("no room"));
      queue_->OnRefusal(queued.job, queued.job.pair.decode);
      queue_->Add(queued.job);
    });
  }

  void Run(QueuedJob& queued, const CallKey& key) {
    queue_->OnAdmitted(queued.job);
    ++(queued.large ? large_started_ : small_started_);
    longest_wait_ = std::max(longest_wait_, clock_.Now() - queued.job.marks.arrived);
    clock_.After((1 + static_cast<int64_t>(random_.Below(kMaxRunMs))) * kNsPerMs, [this, &queued, key] {
      ledger_.Close(key, absl::OkStatus());
      queue_->OnRoomChanged(queued.job.pair.decode);
      queue_->OnEnd(queued.job);
      if (queued.large) SubmitLarge();
      jobs_.erase(key.key.job.low);
    });
  }

  const PlacingOptions options_;
  VirtualTime clock_;
  SeededRandom random_;
  WorkerRegistry registry_;
  CallLedger ledger_;
  SeededRandom draws_{1};
  ClusterHealth health_{clock_, draws_, registry_};
  std::unique_ptr<PlacingQueue> queue_;
  std::map<uint64_t, QueuedJob> jobs_;
  uint64_t last_job_ = 0;
  int small_started_ = 0;
  int large_started_ = 0;
  TimeNs longest_wait_ = 0;
  int64_t held_ns_ = 0;
  int64_t free_ns_ = 0;
};

TEST(PlacingHoldPropertyTest, OneClientsLargePromptsTakeAtMostHalfOfTheTimeForDrainingAndStarveNobody) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const int decode_workers : {1, 3}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << decode_workers << " decode workers");
      BusyQueue queue(seed, decode_workers);
      queue.Run(20'000);
      EXPECT_GT(queue.large_started(), 10);
      EXPECT_GT(queue.small_started(), 800);
      EXPECT_LE(queue.held_ns(), queue.free_ns() + 400 * kNsPerMs);
      EXPECT_LE(queue.longest_wait(), 5 * kNsPerSecond);
    }
  }
}

}  // namespace
}  // namespace baton::router
