// The calls that the router has started at this worker. The router names a call by a number, the phases by its job.
// What the phases say within a round of the loop goes to the router as one message.
#ifndef BATON_WORKER_ROUTER_CALLS_H_
#define BATON_WORKER_ROUTER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/block_report.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/work_note.h"
#include "common/worker_job.h"
#include "worker/block_report_schedule.h"
#include "worker/phase.h"

namespace baton::worker {

// The worker's end of one membership's stream. Thread-safe.
class RouterStream {
 public:
  virtual ~RouterStream() = default;
  // `fill` adds at most `bytes` to the next message, which is written at once, or with all else that is said until the
  // write in flight is done. The stream of a router for which more than kMaxWorkerMessageBytes would wait is cut. Does
  // nothing once the stream has ended.
  virtual void Send(size_t bytes, absl::FunctionRef<void(internal::v1::WorkerMessage&)> fill) = 0;
};

// Used by one thread, the engine's loop.
class RouterCalls {
 public:
  // Both outlive the calls. `work` says whose start is under way.
  RouterCalls(const Clock& clock, WorkNote& work);
  ~RouterCalls();

  // Before the loop. The result is what the phase's core answers through. The phase outlives the calls.
  UpdateSink& Add(Phase& phase);

  // The router has accepted the worker: what follows is said on `stream`. `features` are those that both know.
  void OnJoined(std::shared_ptr<RouterStream> stream, uint64_t features);
  // A message of that stream.
  void OnMessage(const internal::v1::RouterMessage& message);
  // The membership is over: all its calls are cancelled, and nothing more is said about them.
  void OnLost(const absl::Status& why);
  // The time-out of the worker's drain is over: ends every open call with CutByDrain, says so at once, and refuses
  // later starts so that they go to another worker. Whose calls they were, each once.
  std::vector<ChoiceKey> CutAll(int64_t drain_timeout_ms);
  // Whether the router is to be told who holds the worker's blocks: every kBlockReportMs, and early as soon as the
  // worker holds nothing any more.
  bool BlocksAreDue(bool holds_nothing) const { return block_reports_.IsDue(clock_.Now(), holds_nothing); }
  // What the blocks are now. The next Flush sends it, together with the ends that were said before. A router of a
  // former version is told of no blocks while other routers' calls hold some, which it would take for lost. An early
  // report that names a holder after all is not sent.
  void SayBlocks(const BlockReport& report);
  // Sends what was said since the last time. The loop calls it before a step, so that nothing waits for the step, and
  // after it.
  void Flush();

  // Between OnJoined and OnLost.
  bool has_joined() const { return stream_ != nullptr; }
  size_t open_calls() const { return calls_.size(); }
  // How many running calls were frozen, so that they go on elsewhere.
  int64_t frozen_calls() const { return frozen_calls_; }
  // The router has accepted that this worker drains: no start follows.
  bool drain_accepted() const { return drain_accepted_; }

 private:
  // One phase's end of its calls.
  class Side;
  struct Call {
    Side* side;
    JobKey key;
  };

  void Start(const internal::v1::CallStart& start);
  absl::Status TryStart(const internal::v1::CallStart& start);
  // What the start says of who may read the job's KV, or what the job shows to read it.
  absl::Status ReadCapability(const internal::v1::CallStart& start, WorkerJob& job) const;
  void BeginHandOver(const internal::v1::HandOver& hand_over);
  void SayEnd(uint64_t call, const absl::Status& status);

  const Clock& clock_;
  WorkNote& work_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::shared_ptr<RouterStream> stream_;
  absl::flat_hash_map<uint64_t, Call> calls_;
  // What was said since the last Flush.
  internal::v1::WorkerMessage round_;
  bool says_something_ = false;
  // Names the membership in capabilities.
  Id128 membership_tag_;
  // With what the router signs those that it gives to this worker. Absent until it has said so.
  std::optional<internal::v1::CapabilityKey> capability_key_;
  // Stopped while there is no router that takes block reports.
  BlockReportSchedule block_reports_{kBlockReportMs};
  bool knows_other_routers_ = false;
  int64_t frozen_calls_ = 0;
  bool drain_accepted_ = false;
  bool cut_ = false;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ROUTER_CALLS_H_
