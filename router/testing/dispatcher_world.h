// A world of fake workers around a real dispatcher, on virtual time: calls take random time over links that keep the
// order of one call alone; workers refuse, fail, crash, freeze, thaw, lose their connection and come back, and streams
// end late. It checks every action as it comes. For tests.
#ifndef BATON_ROUTER_TESTING_DISPATCHER_WORLD_H_
#define BATON_ROUTER_TESTING_DISPATCHER_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "common/testing/virtual_time.h"
#include "router/call_ledger.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {

struct WorldOptions {
  uint64_t seed = 0;
  int jobs = 100;
  int prefill_workers = 2;
  int decode_workers = 2;
  int mixed_workers = 0;
  int refuse_percent = 0;
  int error_percent = 0;
  int cancel_percent = 0;
  int stop_percent = 0;
  int deadline_percent = 0;
  int digest_percent = 30;
  // Outputs that a client leaves unread for a while.
  int unread_percent = 0;
  // Crashes, freezes and lost connections.
  int faults = 0;
  // Workers that drain, each with a successor.
  int drains = 0;
  // Jobs that kill each worker which computes for them, by a fault of its own: in prefill or in decode.
  int poison_percent = 0;
  // The workers above are there once with each fingerprint, of the same weights; beyond one, every second job allows
  // other numerics.
  int fingerprints = 1;
  DispatcherOptions dispatcher;
};

struct WorldResult {
  int accepted = 0;
  int refused = 0;
  // Refused jobs that would have missed their deadline, and jobs that waited and left the line for it.
  int refused_for_deadline = 0;
  int dropped = 0;
  int ok = 0;
  int failed = 0;
  int attempts = 0;
  // Attempts that pulled a running job's KV, and those of them that got it.
  int moves = 0;
  int moved = 0;
  int taken_back = 0;
  int pauses = 0;
  std::set<std::string> errors;
  // Jobs that ended as poisoned, and workers that died of such jobs.
  int poisoned = 0;
  int killed = 0;
  // Jobs that went on with other numerics, and those of them that came back to those of output 0.
  int switched = 0;
  int returned = 0;
};

class DispatcherWorld {
 public:
  explicit DispatcherWorld(const WorldOptions& options);
  // Until every job has ended and no call is open. Failures are GoogleTest's.
  WorldResult Run();

 private:
  struct FakeWorker {
    WorkerInfo info;
    int32_t used_blocks = 0;
    // False once the membership is over at the worker's end.
    bool alive = true;
    bool frozen = false;
    bool draining = false;
    // What a frozen worker does when it thaws.
    std::vector<std::function<void()>> deferred;
  };
  struct FakeCall {
    CallKey key;
    WorkerId worker;
    std::shared_ptr<const JobSpec> job;
    int32_t held_blocks = 0;
    bool solo = false;
    bool local = false;
    // It pulls the KV of the attempt before, which is frozen.
    bool moved = false;
    // At the worker: it freezes behind its next token, or it has.
    bool hand_over = false;
    bool is_source = false;
    int32_t next_index = 0;
    // At the worker: nothing more is sent.
    bool ended = false;
    bool cancel_asked = false;
    TimeNs last_delivery = 0;
  };
  struct FakeAttempt {
    bool prefill_there = false;
    bool decode_started = false;
    bool handed_over = false;
    // Of its workers.
    std::string fingerprint;
  };
  struct FakeJob {
    std::shared_ptr<const JobSpec> spec;
    TimeNs submitted = 0;
    // The last attempt, and how many were placed.
    uint32_t attempts = 0;
    int32_t placed = 0;
    int32_t tokens = 0;
    int32_t stop_after = 0;
    bool stopped = false;
    // The last attempt.
    bool local = false;
    // Of the workers of the last attempt, of output 0, and of the last output.
    std::string attempt_fingerprint;
    std::string first_fingerprint;
    std::string fingerprint;
    std::optional<int32_t> other_numerics_from;
    bool poison = false;
    // Workers that died of it.
    int killed = 0;
    bool ended = false;
  };

  // The client's side.
  void SubmitOne(uint64_t n);
  // The output that the job must have, and why it ends there.
  static int32_t OutputLength(const JobSpec& spec);
  static FinishReason FinishAt(const JobSpec& spec, int32_t index);
  static void CheckGoesOn(const JobSpec& attempt, const FakeJob& job, bool moved);
  // Both workers of an attempt have one fingerprint, which goes on with the job's outputs.
  void CheckFingerprint(const FakeCall& call, FakeJob& job);
  void NoteFingerprint(FakeJob& job, const OutputToken& token);
  static int32_t TokenAt(const JobSpec& spec, int32_t index) {
    return static_cast<int32_t>((spec.id.low * 31 + static_cast<uint64_t>(index) * 7) % 1000);
  }

  // Workers.
  void AddWorkers(WorkerRole role, int count);
  void AddWorker(WorkerRole role, const std::string& fingerprint);
  void Join(const WorkerInfo& info);
  void Heartbeat(const WorkerId& id);
  void FaultAtOne();
  void Freeze(const WorkerId& id);
  void DrainOne();
  void LeaveWhenDrained(const WorkerId& id, TimeNs cut_at);
  // The process loses its connection, cancels its jobs and joins anew.
  void Rejoin(const WorkerId& id);
  void BreakStream(const WorkerId& id, int64_t max_ms);
  // The membership is over at the worker's end.
  void Die(FakeWorker& worker);
  // A step for this call begins. True when the worker has died of it.
  bool DiesOf(const FakeCall& call);
  // The router has lost the worker.
  void DropCalls(const WorkerId& id);
  void Arrive(FakeCall& call);
  void ArrivePrefill(FakeCall& call);
  void ArriveDecode(FakeCall& call);
  void TryLicence(const JobKey& key);
  void Compute(FakeCall& call);
  void CommitAt(const JobKey& key);
  // What a call of a move means to the other end of its hand-off.
  void PullMoved(FakeCall& call);
  void CommitMoved(const JobKey& key);
  void EndSource(const JobKey& moved);
  void TakeBack(FakeCall& call);
  CallKey SourceOf(const JobKey& moved) const {
    const auto it = sources_.find(moved);
    return {Side::kDecode, it == sources_.end() ? JobKey() : it->second};
  }
  void DecodeFrom(const CallKey& key, int32_t index);
  void FinishCall(FakeCall& call);
  void EndCall(FakeCall& call, const absl::Status& status);
  void TellPeer(const FakeCall& call);
  bool Working(const FakeCall& call);
  FakeCall* Find(const CallKey& key);

  // Links and time.
  void After(int64_t ns, std::function<void()> event) { clock_.After(ns, std::move(event)); }
  // Something that the worker does, unless it has died before.
  void AtWorker(const WorkerId& id, int64_t ns, std::function<void()> event);
  // In order after what the call sent before.
  void Deliver(FakeCall& call, std::function<void()> event);
  void SendUpdate(FakeCall& call, const WorkerUpdate& update);
  void SendToken(FakeCall& call, int32_t index);
  int64_t RandomNs(int64_t max_ms) {
    return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(max_ms * kNsPerMs)));
  }
  bool Chance(int percent) { return random_.Below(100) < static_cast<uint64_t>(percent); }

  // The router's loop.
  void Pump();
  void Handle(const StartPrefill& start);
  void Handle(const StartDecode& start);
  void Handle(const CancelAttempt& cancel);
  void Handle(const HandOverAttempt& move);
  void Handle(const EndMembership& end);
  void Handle(const DrainWorker&) { FAIL() << "nobody has ordered a drain"; }
  void Handle(const EmitToken& emit);
  void Handle(const EndJob& end);
  FakeJob& LiveJob(const ChoiceKey& key);
  void StartCall(FakeCall call, const std::string& target);
  void CheckBounds();
  void CheckLedger();

  const WorldOptions options_;
  VirtualTime clock_;
  SeededRandom random_;
  SeededRandom secrets_{1};
  Dispatcher dispatcher_;
  std::map<WorkerId, FakeWorker> workers_;
  uint64_t next_process_ = 1;
  uint64_t next_membership_ = 1;
  std::map<ChoiceKey, FakeJob> jobs_;
  // Open at the router: OnWorkerEnd has not come.
  std::map<CallKey, FakeCall> calls_;
  std::map<JobKey, FakeAttempt> attempts_;
  // The frozen attempts, by the attempts that were to go on.
  std::map<JobKey, JobKey> sources_;
  int submitted_ = 0;
  int unended_ = 0;
  WorldResult result_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_DISPATCHER_WORLD_H_
