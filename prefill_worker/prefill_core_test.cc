#include "prefill_worker/prefill_core.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/testing/manual_clock.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/testing/fake_model.h"
#include "gtest/gtest.h"
#include "worker/worker_core.h"

namespace baton::prefill_worker {
namespace {

constexpr int32_t kPoolBlocks = 4;
constexpr JobKey kJob{.job = {.high = 1, .low = 1}, .attempt = 1};

class NoFetcher final : public worker::KvFetcher {
 public:
  void Start(const kvtransfer::FetchSpec&) override {}
  void Cancel(const JobKey&, const absl::Status&) override {}
};

class NoReplies final : public kvtransfer::FetchReplies {
 public:
  void Reply(kvtransfer::FetchStreamId, const kvtransfer::FetchReply&) override {}
  void Close(kvtransfer::FetchStreamId, const absl::Status&) override {}
};

struct LastWords final : public UpdateSink {
  void Update(const JobKey&, const WorkerUpdate& update) override {
    started |= update.kind == WorkerUpdate::Kind::kStarted;
  }
  void End(const JobKey&, const absl::Status& status) override { end = status; }

  bool started = false;
  std::optional<absl::Status> end;
};

// A worker with a prefill phase. The test itself is its other phase: it takes blocks of the engine and gives them back.
class PrefillCoreTest : public ::testing::Test {
 protected:
  PrefillCoreTest()
      : memory_(kPoolBlocks * model_.kv_layout().block_bytes()),
        pool_({memory_.data(), memory_.bytes()}, model_.kv_layout().block_bytes()),
        worker_({.incarnation = {1, 1}, .engine = {.chunk_tokens = 64, .max_sequences = 4}},
                {.clock = clock_, .runner = model_, .pool = pool_, .replies = replies_, .fetcher = fetcher_}),
        core_(worker_, updates_) {
    worker_.MakeLoop();
  }

  static std::vector<int32_t> PromptOf(int32_t blocks) {
    return std::vector<int32_t>(static_cast<size_t>(blocks * kBlockTokens), 7);
  }
  engine::SequenceId TakeBlocks(int32_t blocks) {
    const auto sequence =
        worker_.engine().Reserve({.prompt = PromptOf(blocks), .sampling = {.max_tokens = 1}, .pulls_prompt = true});
    BATON_CHECK(sequence.ok()) << sequence.status();
    return *sequence;
  }
  // A prompt that is its own job: one output token, no reader.
  void PrefillSolo(int32_t blocks) {
    WorkerJob job{.key = kJob, .prompt = PromptOf(blocks)};
    job.sampling.max_tokens = 1;
    core_.OnPrefill(std::move(job), /*solo=*/true);
  }
  // Runs the loop until it has nothing to do.
  void RunUntilIdle() {
    do {
      worker_.loop().RunOnce();
    } while (worker_.loop().NextRun() <= clock_.Now());
  }

  ManualClock clock_;
  engine::FakeModel model_{{}};
  engine::kernels::AlignedBuffer memory_;
  HostKvPool pool_;
  NoReplies replies_;
  NoFetcher fetcher_;
  worker::WorkerCore worker_;
  LastWords updates_;
  PrefillCore core_;
};

TEST_F(PrefillCoreTest, AWaitingPromptStartsWhenAnotherPhaseGivesBlocksBack) {
  const engine::SequenceId other = TakeBlocks(3);
  PrefillSolo(2);
  RunUntilIdle();
  ASSERT_FALSE(updates_.started) << "there is no room yet";
  ASSERT_TRUE(worker_.loop().Post([&] { worker_.engine().Release(other); }));
  RunUntilIdle();
  ASSERT_TRUE(updates_.end.has_value()) << "the prompt waits for ever";
  EXPECT_EQ(*updates_.end, absl::OkStatus());
}

TEST_F(PrefillCoreTest, TooFewBlocksGivenBackLeaveThePromptWaitingWithoutASpin) {
  const engine::SequenceId large = TakeBlocks(2);
  const engine::SequenceId small = TakeBlocks(1);
  PrefillSolo(3);
  ASSERT_TRUE(worker_.loop().Post([&] { worker_.engine().Release(small); }));
  RunUntilIdle();
  EXPECT_FALSE(updates_.started);
  EXPECT_EQ(worker_.loop().NextRun(), kNever);
  ASSERT_TRUE(worker_.loop().Post([&] { worker_.engine().Release(large); }));
  RunUntilIdle();
  EXPECT_TRUE(updates_.end.has_value());
}

}  // namespace
}  // namespace baton::prefill_worker
