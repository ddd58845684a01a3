// A simulated process that runs the real worker::WorkerCore over the fake model. A round of its loop takes virtual
// time: what the round says is heard when it is over, and what comes meanwhile waits in the loop's mailbox.
#ifndef BATON_SIMULATOR_LOOP_PROCESS_H_
#define BATON_SIMULATOR_LOOP_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/kv_pool.h"
#include "engine/model_runner.h"
#include "engine/testing/slow_grammar.h"
#include "kvtransfer/fetch_replies.h"
#include "kvtransfer/testing/fake_block_access.h"
#include "router/worker_registry.h"
#include "simulator/process.h"
#include "worker/kv_fetcher.h"
#include "worker/worker_core.h"

namespace baton::simulator {

struct WorkerSetup {
  router::WorkerRole role = router::WorkerRole::kPrefill;
  std::string target;
  int32_t block_count = 0;
  int32_t chunk_tokens = 64;
  int32_t max_sequences = 4;
  // The lease of the Fetch streams, and how often it is renewed.
  int64_t lease_ms = 4'000;
  int64_t renew_ms = 500;
  // It does not join while a step of its engine takes longer.
  int64_t engine_stall_ms = 30'000;

  bool prefills() const { return role != router::WorkerRole::kDecode; }
  bool decodes() const { return role != router::WorkerRole::kPrefill; }
};

// Ends-of-sequence of the simulated model.
inline constexpr int32_t kEosId = 63;

class LoopProcess : public Process {
 public:
  const Incarnation& incarnation() const { return worker_.options().incarnation; }
  const WorkerSetup& setup() const { return setup_; }
  worker::WorkerCore& worker() { return worker_; }
  Simulation& sim() { return sim_; }
  // What a dead process's memory held stays readable, as its mapping does.
  absl::Span<uint8_t> memory() { return absl::MakeSpan(memory_); }
  KvPool& pool() { return pool_; }

  // When the loop's round under way ends.
  TimeNs busy_until() const { return busy_until_; }

  // Any event of the process may post to the loop.
  void PostToLoop(Task task);
  // Called within a round of the loop: the effect happens when the round is over.
  void Emit(Task effect) { effects_.push_back(std::move(effect)); }

 protected:
  // The interfaces are used from MakeLoop on.
  LoopProcess(Simulation& sim, const WorkerSetup& setup, kvtransfer::FetchReplies& replies, worker::KvFetcher& fetcher);
  ~LoopProcess() = default;

  // The step under way takes this much longer; without one, the loop hangs as if in a step.
  void Stall(int64_t ns);
  // Every step that begins within this time takes `factor` times as long.
  void Slow(int64_t ns, int64_t factor);
  void LeapLoopClock(int64_t ns);
  // The attempts of the step under way; empty without one.
  std::vector<JobKey> AtWork() const;
  // A step has begun, which takes until busy_until().
  virtual void OnStep() {}
  // What the loop last reported; the age of its step is as of now.
  router::WorkerLoad Load() const;
  void CheckLoopQuiet() const;

  const WorkerSetup setup_;
  // The attempts of the last step. The runner writes it, also when the worker ends.
  std::vector<JobKey> at_work_;
  const std::unique_ptr<engine::ModelRunner> runner_;
  std::vector<uint8_t> memory_;
  HostKvPool pool_;
  kvtransfer::FakeBlockAccess access_;
  engine::SlowSource grammars_;
  // The derived process adds its phases and makes the loop.
  worker::WorkerCore worker_;

 private:
  // In one case of `one_in` what the loop needs is ready within `most_ms`, else at once.
  void Prepare(uint64_t one_in, int64_t most_ms, const Task& make_ready);
  void ScheduleRun(TimeNs at);
  void RunOnce();

  std::vector<Task> effects_;
  TimeNs slow_until_ = 0;
  int64_t slow_factor_ = 1;
  TimeNs next_run_ = kNever;
  TimeNs busy_since_ = 0;
  TimeNs busy_until_ = 0;
  int64_t steps_ = 0;
  router::WorkerLoad load_;
  int32_t preempted_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_LOOP_PROCESS_H_
