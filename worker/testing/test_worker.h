// A worker's core over a model without arithmetic, for tests of its phases: the test is router, reader and transfer
// thread, and moves the clock.
#ifndef BATON_WORKER_TESTING_TEST_WORKER_H_
#define BATON_WORKER_TESTING_TEST_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/random.h"
#include "common/testing/manual_clock.h"
#include "common/worker_job.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/testing/fake_model.h"
#include "kvtransfer/testing/fake_block_access.h"
#include "worker/worker_core.h"

namespace baton::worker {

// What the router hears of one job.
struct HeardOfJob {
  std::vector<WorkerUpdate::Kind> kinds;
  std::vector<int32_t> tokens;
  int32_t cached_tokens = 0;
  WorkerUpdate frozen;
  WorkerUpdate finished;
  std::vector<absl::Status> ends;

  bool started() const { return !kinds.empty() && kinds.front() == WorkerUpdate::Kind::kStarted; }
  bool ended() const { return !ends.empty(); }
};

class RecordedUpdates final : public UpdateSink {
 public:
  void Update(const JobKey& key, const WorkerUpdate& update) override {
    HeardOfJob& job = jobs_[key];
    job.kinds.push_back(update.kind);
    if (update.kind == WorkerUpdate::Kind::kStarted) job.cached_tokens = update.cached_tokens;
    if (update.kind == WorkerUpdate::Kind::kToken) job.tokens.push_back(update.token.token);
    if (update.kind == WorkerUpdate::Kind::kFrozen) job.frozen = update;
    if (update.kind == WorkerUpdate::Kind::kFinished) job.finished = update;
  }
  void End(const JobKey& key, const absl::Status& status) override { jobs_[key].ends.push_back(status); }

  const HeardOfJob& operator[](const JobKey& key) { return jobs_[key]; }

 private:
  std::map<JobKey, HeardOfJob> jobs_;
};

// The transfer thread: the test answers each start.
struct RecordedFetches final : public KvFetcher {
  void Start(const kvtransfer::FetchSpec& spec) override { started.push_back(spec); }
  void Cancel(const JobKey& key, const absl::Status&) override { cancelled.push_back(key); }

  std::vector<kvtransfer::FetchSpec> started;
  std::vector<JobKey> cancelled;
};

// The readers of this worker's blocks.
struct RecordedReplies final : public kvtransfer::FetchReplies {
  void Reply(kvtransfer::FetchStreamId stream, const kvtransfer::FetchReply& reply) override {
    if (const auto* ready = std::get_if<kvtransfer::BlocksReady>(&reply)) {
      for (const kvtransfer::BlockReady& block : ready->blocks) {
        blocks[stream].push_back(block.index);
        offsets[stream][block.index] = block.offset;
      }
    }
    if (const auto* begun = std::get_if<kvtransfer::BlocksBegun>(&reply)) {
      for (const kvtransfer::BlockBegun& block : begun->blocks) on_begun(block);
    }
    if (const auto* complete = std::get_if<kvtransfer::FetchComplete>(&reply)) completed[stream] = *complete;
  }
  void Close(kvtransfer::FetchStreamId stream, const absl::Status& status) override { closed[stream] = status; }

  std::function<void(const kvtransfer::BlockBegun&)> on_begun = [](const kvtransfer::BlockBegun&) {};
  // The announced blocks, the end of the prompt and that of the stream.
  std::map<kvtransfer::FetchStreamId, std::vector<int32_t>> blocks;
  std::map<kvtransfer::FetchStreamId, std::map<int32_t, uint64_t>> offsets;
  std::map<kvtransfer::FetchStreamId, kvtransfer::FetchComplete> completed;
  std::map<kvtransfer::FetchStreamId, absl::Status> closed;
};

struct TestWorkerOptions {
  int32_t pool_blocks = 0;
  engine::EngineOptions engine = {.chunk_tokens = 64, .max_sequences = 4};
  engine::FakeModelOptions model = {};
};

// Phases are added to `core` before the first call of a method.
struct TestWorker {
  explicit TestWorker(const TestWorkerOptions& options)
      : model(options.model),
        memory(static_cast<size_t>(options.pool_blocks) * model.kv_layout().block_bytes()),
        pool({memory.data(), memory.bytes()}, model.kv_layout().block_bytes()),
        core({.incarnation = {1, 1}, .engine = options.engine}, {.clock = clock,
                                                                 .random = random,
                                                                 .runner = model,
                                                                 .pool = pool,
                                                                 .replies = replies,
                                                                 .access = access,
                                                                 .fetcher = fetcher}) {}

  // Distinct prompts for distinct values of `first`.
  static std::vector<int32_t> PromptOf(int32_t tokens, int32_t first = 7) {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < tokens; ++i) prompt.push_back((first + i * 5) % 64);
    return prompt;
  }

  // One round of the loop. True when a step ran.
  bool RunOnce() { return core.loop().RunOnce(); }
  // Rounds until nothing is left to do. False when that takes longer than any test should.
  bool RunUntilIdle() {
    constexpr int kMaxRounds = 10'000;
    for (int round = 0; round < kMaxRounds; ++round) {
      RunOnce();
      if (core.loop().NextRun() > clock.Now()) return true;
    }
    return false;
  }

  // A reader gives the job its licence.
  void OpenFetch(kvtransfer::FetchStreamId stream, const JobKey& key) { OpenFetch(stream, {.key = key}); }
  // The rest of `open` is what the worker expects.
  void OpenFetch(kvtransfer::FetchStreamId stream, kvtransfer::FetchOpen open) {
    open.source = core.options().incarnation;
    open.fingerprint = model.fingerprint();
    open.lease_ms = 10'000;
    core.kv_server().OnFetchRequest(stream, open);
  }
  void ReleaseFetch(kvtransfer::FetchStreamId stream) {
    core.kv_server().OnFetchRequest(stream, kvtransfer::FetchRelease{});
  }

  ManualClock clock;
  SeededRandom random{1};
  engine::FakeModel model;
  engine::kernels::AlignedBuffer memory;
  HostKvPool pool;
  RecordedReplies replies;
  RecordedFetches fetcher;
  kvtransfer::FakeBlockAccess access;
  WorkerCore core;
  RecordedUpdates updates;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_TESTING_TEST_WORKER_H_
