#include "router/testing/dispatcher_world.h"

#include <algorithm>
#include <variant>

#include "common/kv_layout.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"

namespace baton::router {
namespace {

constexpr int kMaxOutput = 12;
constexpr int64_t kHeartbeatNs = 100 * kNsPerMs;
// Virtual time after which a world that is not done counts as hanging.
constexpr TimeNs kEndOfWorld = VirtualTime::kStart + 600 * kNsPerSecond;

WorkerUpdate MakeUpdate(WorkerUpdate::Kind kind) {
  WorkerUpdate update;
  update.kind = kind;
  return update;
}

}  // namespace

DispatcherWorld::DispatcherWorld(const WorldOptions& options)
    : options_(options), random_(options.seed), dispatcher_(options.dispatcher, clock_, secrets_) {}

WorldResult DispatcherWorld::Run() {
  AddWorkers(WorkerRole::kPrefill, options_.prefill_workers);
  AddWorkers(WorkerRole::kDecode, options_.decode_workers);
  AddWorkers(WorkerRole::kMixed, options_.mixed_workers);
  for (int i = 0; i < options_.jobs; ++i) {
    After(RandomNs(3'000), [this, i] { SubmitOne(static_cast<uint64_t>(i) + 1); });
  }
  for (int i = 0; i < options_.faults; ++i) After(RandomNs(3'000), [this] { FaultAtOne(); });
  for (int i = 0; i < options_.drains; ++i) After(RandomNs(3'000), [this] { DrainOne(); });
  while (!::testing::Test::HasFailure() && (submitted_ < options_.jobs || unended_ > 0 || !calls_.empty())) {
    if (!clock_.RunNext(dispatcher_.NextTimer())) {
      dispatcher_.OnTimer();
      EXPECT_GT(dispatcher_.NextTimer(), clock_.Now()) << "the loop would spin";
    }
    Pump();
    EXPECT_LT(clock_.Now(), kEndOfWorld) << unended_ << " jobs hang, " << calls_.size() << " calls are open";
  }
  EXPECT_EQ(dispatcher_.queued_jobs(), 0);
  EXPECT_EQ(dispatcher_.running_jobs(), 0);
  EXPECT_EQ(dispatcher_.open_calls(), 0);
  CheckLedger();
  return result_;
}

void DispatcherWorld::SubmitOne(uint64_t n) {
  ++submitted_;
  JobShape shape{.prompt_tokens = 1 + static_cast<int>(random_.Below(Chance(10) ? 1500 : 200)),
                 .max_tokens = 1 + static_cast<int>(random_.Below(kMaxOutput)),
                 .deadline = kNever,
                 .want_kv_digest = Chance(options_.digest_percent),
                 .allows_other_numerics = options_.fingerprints > 1 && n % 2 == 0};
  if (Chance(options_.deadline_percent)) shape.deadline = clock_.Now() + RandomNs(300);
  FakeJob job{.spec = MakeJob(n, shape), .submitted = clock_.Now(), .poison = Chance(options_.poison_percent)};
  if (Chance(options_.stop_percent)) job.stop_after = 1 + static_cast<int32_t>(random_.Below(kMaxOutput));
  // All jobs are one tenant's.
  const bool full = dispatcher_.queued_jobs() >=
                    options_.dispatcher.max_queued_jobs - options_.dispatcher.max_queued_jobs / kKeptPlaces;
  const absl::Status status = dispatcher_.Submit(job.spec);
  if (!status.ok() && GetRefusalReason(status) == RefusalReason::kPoisoned) {
    // It looks like one that killed workers.
    ++result_.refused;
    return;
  }
  if (!status.ok() && GetRefusalReason(status) == RefusalReason::kDeadline) {
    EXPECT_NE(shape.deadline, kNever);
    EXPECT_GT(dispatcher_.queued_jobs(), 0) << "refused while nobody waits";
    EXPECT_GT(GetRetryAfterMs(status).value_or(0), 0);
    ++result_.refused;
    ++result_.refused_for_deadline;
    return;
  }
  EXPECT_EQ(status.ok(), !full) << status;
  ++(full ? result_.refused : result_.accepted);
  if (full) return;
  const ChoiceKey key = job.spec->key();
  jobs_.emplace(key, std::move(job));
  ++unended_;
  if (!Chance(options_.cancel_percent)) return;
  After(RandomNs(400), [this, key] { dispatcher_.Cancel(key, absl::CancelledError("the client left")); });
}

int32_t DispatcherWorld::OutputLength(const JobSpec& spec) {
  return std::min(spec.sampling.max_tokens, 1 + static_cast<int32_t>(spec.id.low * 2654435761u % (2 * kMaxOutput)));
}

FinishReason DispatcherWorld::FinishAt(const JobSpec& spec, int32_t index) {
  if (index + 1 < OutputLength(spec)) return FinishReason::kNone;
  return OutputLength(spec) < spec.sampling.max_tokens ? FinishReason::kStop : FinishReason::kLength;
}

void DispatcherWorld::AddWorkers(WorkerRole role, int count) {
  for (int i = 0; i < count * options_.fingerprints; ++i) {
    AddWorker(role, "n" + std::to_string(i % options_.fingerprints) + "/weights:w");
  }
}

void DispatcherWorld::AddWorker(WorkerRole role, const std::string& fingerprint) {
  WorkerInfo info = MakeWorker(next_process_++, role);
  info.fingerprint = fingerprint;
  info.max_sequences = 8;
  if (role == WorkerRole::kMixed) info.headroom_blocks = info.total_blocks / 2;
  Join(info);
}

// Every try has a new membership. A process that cannot prove that it is the member of its incarnation waits until the
// router has lost that one.
void DispatcherWorld::Join(const WorkerInfo& process) {
  FakeWorker worker{.info = process};
  worker.info.id = MakeWorkerId(next_membership_++);
  const WorkerId id = worker.info.id;
  const absl::Status joined = dispatcher_.OnWorkerJoin(worker.info);
  if (!joined.ok()) {
    EXPECT_TRUE(absl::IsAlreadyExists(joined)) << joined;
    return After(250 * kNsPerMs, [this, process] { Join(process); });
  }
  workers_.emplace(id, std::move(worker));
  AtWorker(id, kHeartbeatNs, [this, id] { Heartbeat(id); });
}

void DispatcherWorld::AtWorker(const WorkerId& id, int64_t ns, std::function<void()> event) {
  After(ns, [this, id, event = std::move(event)] {
    FakeWorker& worker = workers_.at(id);
    if (worker.frozen) {
      worker.deferred.push_back(event);
    } else if (worker.alive) {
      event();
    }
  });
}

void DispatcherWorld::Heartbeat(const WorkerId& id) {
  const FakeWorker& worker = workers_.at(id);
  WorkerLoad load;
  if (worker.draining) load.state = WorkerState::kDraining;
  load.used_blocks = worker.used_blocks;
  load.free_blocks = worker.info.total_blocks - worker.used_blocks;
  After(RandomNs(20), [this, id, load] { dispatcher_.OnWorkerLoad(id, load); });
  AtWorker(id, kHeartbeatNs, [this, id] { Heartbeat(id); });
}

void DispatcherWorld::FaultAtOne() {
  std::vector<WorkerId> sound;
  for (const auto& [id, worker] : workers_) {
    if (worker.alive && !worker.frozen) sound.push_back(id);
  }
  if (sound.empty()) return;
  const WorkerId id = sound[random_.Below(sound.size())];
  if (Chance(30)) return Freeze(id);
  if (Chance(30)) return Rejoin(id);
  // A crash. The router hears of it, or has to notice the silence. Another process takes the worker's place.
  FakeWorker& worker = workers_.at(id);
  Die(worker);
  if (Chance(80)) BreakStream(id, 20);
  After(RandomNs(500), [this, info = worker.info] { AddWorker(info.role, info.fingerprint); });
}

void DispatcherWorld::DrainOne() {
  std::vector<WorkerId> serving;
  for (const auto& [id, worker] : workers_) {
    if (worker.alive && !worker.frozen && !worker.draining) serving.push_back(id);
  }
  if (serving.empty()) return;
  const WorkerId id = serving[random_.Below(serving.size())];
  FakeWorker& worker = workers_.at(id);
  worker.draining = true;
  // The successor may join before it leaves.
  After(RandomNs(200), [this, info = worker.info] { AddWorker(info.role, info.fingerprint); });
  LeaveWhenDrained(id, clock_.Now() + (Chance(20) ? RandomNs(300) : 60 * kNsPerSecond));
}

void DispatcherWorld::LeaveWhenDrained(const WorkerId& id, TimeNs cut_at) {
  AtWorker(id, RandomNs(10), [this, id, cut_at] {
    FakeWorker& worker = workers_.at(id);
    const Worker* known = dispatcher_.registry().Find(id);
    const bool placed = known != nullptr && known->load.state != WorkerState::kDraining;
    std::vector<CallKey> open;
    for (const auto& [key, call] : calls_) {
      if (call.worker == id && !call.ended) open.push_back(key);
    }
    if (placed || (!open.empty() && clock_.Now() < cut_at)) return LeaveWhenDrained(id, cut_at);
    TimeNs told = clock_.Now();
    for (const CallKey& key : open) {
      FakeCall& call = calls_.at(key);
      EndCall(call, absl::UnavailableError("cut by the drain"));
      told = std::max(told, call.last_delivery);
    }
    for (const auto& [key, call] : calls_) {
      if (call.worker == id) told = std::max(told, call.last_delivery);
    }
    Die(worker);
    // Its stream ends behind all that it has said.
    clock_.At(told + 1, [this, id] {
      dispatcher_.OnWorkerLost(id, absl::UnavailableError("the worker left"));
      DropCalls(id);
    });
  });
}

void DispatcherWorld::Freeze(const WorkerId& id) {
  workers_.at(id).frozen = true;
  After(RandomNs(3 * options_.dispatcher.worker_silence_ms), [this, id] {
    FakeWorker& worker = workers_.at(id);
    worker.frozen = false;
    // It finds its stream ended.
    if (dispatcher_.registry().Find(id) == nullptr) return Rejoin(id);
    for (const auto& event : std::exchange(worker.deferred, {})) {
      if (worker.alive) event();
    }
  });
}

void DispatcherWorld::Rejoin(const WorkerId& id) {
  FakeWorker& worker = workers_.at(id);
  if (!worker.alive) return;
  Die(worker);
  WorkerInfo process = worker.info;
  process.resumes = Chance(50) ? id : WorkerId();
  // The router may hear of the old stream's end long after the new membership.
  BreakStream(id, 3'000);
  After(RandomNs(20), [this, process] { Join(process); });
}

void DispatcherWorld::BreakStream(const WorkerId& id, int64_t max_ms) {
  After(RandomNs(max_ms), [this, id] {
    dispatcher_.OnWorkerLost(id, absl::UnavailableError("the stream broke"));
    DropCalls(id);
  });
}

void DispatcherWorld::Die(FakeWorker& worker) {
  worker.alive = false;
  for (auto& [key, call] : calls_) {
    if (call.worker != worker.info.id || call.ended) continue;
    call.ended = true;
    TellPeer(call);
  }
}

bool DispatcherWorld::DiesOf(const FakeCall& call) {
  const auto it = jobs_.find(call.key.key.choice_key());
  // Every second one kills in prefill alone, the others in decode alone.
  const bool prefills = call.key.side == Side::kPrefill;
  if (it == jobs_.end() || !it->second.poison || (call.key.key.job.low % 2 == 0) != prefills) return false;
  ++it->second.killed;
  ++result_.killed;
  WorkerFault fault{.signal = 11, .at_work = {call.key.key}};
  const WorkerId id = call.worker;
  for (const auto& [key, other] : calls_) {
    const bool in_company = call.job->alone_outputs == 0 && other.job->alone_outputs == 0;
    if (in_company && other.worker == id && !other.ended && key != call.key) fault.at_work.push_back(key.key);
  }
  FakeWorker& worker = workers_.at(id);
  Die(worker);
  After(RandomNs(20), [this, id, fault = std::move(fault)] {
    dispatcher_.OnWorkerFault(id, fault);
    DropCalls(id);
  });
  After(RandomNs(500), [this, info = worker.info] { AddWorker(info.role, info.fingerprint); });
  return true;
}

void DispatcherWorld::DropCalls(const WorkerId& id) {
  std::erase_if(calls_, [&id](const auto& entry) { return entry.second.worker == id; });
}

bool DispatcherWorld::Working(const FakeCall& call) { return !call.ended && workers_.at(call.worker).alive; }

DispatcherWorld::FakeCall* DispatcherWorld::Find(const CallKey& key) {
  const auto it = calls_.find(key);
  return it == calls_.end() || !Working(it->second) ? nullptr : &it->second;
}

void DispatcherWorld::Arrive(FakeCall& call) {
  if (call.ended) return;
  if (Chance(options_.refuse_percent)) return EndCall(call, absl::ResourceExhaustedError("no room, it says"));
  call.key.side == Side::kPrefill ? ArrivePrefill(call) : ArriveDecode(call);
}

void DispatcherWorld::ArrivePrefill(FakeCall& call) {
  if (call.solo) return Compute(call);
  attempts_[call.key.key].prefill_there = true;
  TryLicence(call.key.key);
}

void DispatcherWorld::ArriveDecode(FakeCall& call) {
  FakeWorker& worker = workers_.at(call.worker);
  const int32_t blocks = BlocksForTokens(static_cast<int64_t>(call.job->prompt.size()));
  const int32_t headroom = worker.used_blocks == 0 ? 0 : worker.info.headroom_blocks;
  if (worker.used_blocks + blocks + headroom > worker.info.total_blocks) {
    return EndCall(call, absl::ResourceExhaustedError("no blocks"));
  }
  worker.used_blocks += blocks;
  call.held_blocks = blocks;
  SendUpdate(call, MakeUpdate(WorkerUpdate::Kind::kStarted));
  if (call.local) return DecodeFrom(call.key, call.job->emitted);
  attempts_[call.key.key].decode_started = true;
  call.moved ? PullMoved(call) : TryLicence(call.key.key);
}

void DispatcherWorld::PullMoved(FakeCall& call) {
  if (Find(SourceOf(call.key.key)) == nullptr) return EndCall(call, absl::UnavailableError("nobody serves the KV"));
  AtWorker(call.worker, RandomNs(10), [this, key = call.key.key] { CommitMoved(key); });
}

void DispatcherWorld::CommitMoved(const JobKey& key) {
  FakeCall* decode = Find({Side::kDecode, key});
  if (decode == nullptr) return;
  const FakeCall* source = Find(SourceOf(key));
  if (source == nullptr) return EndCall(*decode, absl::UnavailableError("the source has gone"));
  EXPECT_TRUE(source->is_source);
  if (Chance(options_.error_percent)) return EndCall(*decode, absl::DataLossError("a digest differs"));
  ++result_.moved;
  attempts_[key].handed_over = true;
  SendUpdate(*decode, MakeUpdate(WorkerUpdate::Kind::kKvCommitted));
  EndSource(key);
  DecodeFrom(decode->key, decode->job->emitted);
}

// The reader has all, or has gone: the source lets the blocks go.
void DispatcherWorld::EndSource(const JobKey& moved) {
  const FakeCall* source = Find(SourceOf(moved));
  if (source == nullptr || !source->is_source) return;
  AtWorker(source->worker, RandomNs(5), [this, key = SourceOf(moved)] {
    if (FakeCall* open = Find(key)) EndCall(*open, absl::OkStatus());
  });
}

void DispatcherWorld::TryLicence(const JobKey& key) {
  const FakeAttempt& attempt = attempts_[key];
  if (!attempt.prefill_there || !attempt.decode_started) return;
  FakeCall* prefill = Find({Side::kPrefill, key});
  if (prefill != nullptr && Find({Side::kDecode, key}) != nullptr) Compute(*prefill);
}

void DispatcherWorld::Compute(FakeCall& call) {
  WorkerUpdate started = MakeUpdate(WorkerUpdate::Kind::kStarted);
  started.cached_tokens = static_cast<int32_t>(random_.Below(call.job->prompt.size()));
  SendUpdate(call, started);
  AtWorker(call.worker, RandomNs(30), [this, key = call.key] {
    FakeCall* prefill = Find(key);
    if (prefill == nullptr) return;
    if (Chance(options_.error_percent)) return EndCall(*prefill, absl::InternalError("prefill broke"));
    if (DiesOf(*prefill)) return;
    SendToken(*prefill, prefill->job->emitted);
    WorkerUpdate finished = MakeUpdate(WorkerUpdate::Kind::kFinished);
    if (prefill->job->want_kv_digest) finished.kv_digest = "digest";
    SendUpdate(*prefill, finished);
    attempts_[key.key].handed_over = true;
    EndCall(*prefill, absl::OkStatus());
    const auto decode = calls_.find({Side::kDecode, key.key});
    if (prefill->solo || decode == calls_.end()) return;
    AtWorker(decode->second.worker, RandomNs(10), [this, key] { CommitAt(key.key); });
  });
}

void DispatcherWorld::CommitAt(const JobKey& key) {
  FakeCall* decode = Find({Side::kDecode, key});
  if (decode == nullptr) return;
  if (Chance(options_.error_percent)) return EndCall(*decode, absl::DataLossError("a digest differs"));
  const int32_t first = decode->job->emitted;
  if (OutputLength(*decode->job) > first + 1) SendUpdate(*decode, MakeUpdate(WorkerUpdate::Kind::kKvCommitted));
  DecodeFrom(decode->key, first);
}

void DispatcherWorld::DecodeFrom(const CallKey& key, int32_t index) {
  FakeCall* call = Find(key);
  if (call == nullptr) return;
  if (Chance(options_.error_percent)) return EndCall(*call, absl::InternalError("decode broke"));
  if ((index > call->job->emitted || call->local) && DiesOf(*call)) return;
  SendToken(*call, index);
  if (index + 1 == OutputLength(*call->job)) return FinishCall(*call);
  if (call->hand_over) {
    call->is_source = true;
    call->next_index = index + 1;
    WorkerUpdate frozen = MakeUpdate(WorkerUpdate::Kind::kFrozen);
    frozen.token = {.index = index, .token = TokenAt(*call->job, index)};
    return SendUpdate(*call, frozen);
  }
  AtWorker(call->worker, RandomNs(10), [this, key, index] { DecodeFrom(key, index + 1); });
}

void DispatcherWorld::FinishCall(FakeCall& call) {
  SendUpdate(call, MakeUpdate(WorkerUpdate::Kind::kFinished));
  EndCall(call, absl::OkStatus());
}

void DispatcherWorld::EndCall(FakeCall& call, const absl::Status& status) {
  if (call.ended) return;
  call.ended = true;
  workers_.at(call.worker).used_blocks -= call.held_blocks;
  Deliver(call, [this, key = call.key, status] {
    calls_.erase(key);
    dispatcher_.OnWorkerEnd(key.side, key.key, status);
  });
  TellPeer(call);
}

// A failure of one side before the hand-over reaches the other side, unless that one was never started.
void DispatcherWorld::TellPeer(const FakeCall& call) {
  if (call.moved) {
    if (!attempts_[call.key.key].handed_over) EndSource(call.key.key);
    return;
  }
  if (call.local || call.solo || attempts_[call.key.key].handed_over || !attempts_[call.key.key].decode_started) return;
  const CallKey other = {call.key.side == Side::kPrefill ? Side::kDecode : Side::kPrefill, call.key.key};
  const FakeCall* peer = Find(other);
  if (peer == nullptr) return;
  AtWorker(peer->worker, RandomNs(5), [this, other] {
    FakeCall* open = Find(other);
    if (open == nullptr) return;
    EndCall(*open, Chance(50) ? absl::CancelledError("the other side has gone") : absl::UnavailableError("cut"));
  });
}

void DispatcherWorld::Deliver(FakeCall& call, std::function<void()> event) {
  call.last_delivery = std::max(call.last_delivery, clock_.Now() + RandomNs(Chance(10) ? 40 : 3));
  clock_.At(call.last_delivery, std::move(event));
}

void DispatcherWorld::SendUpdate(FakeCall& call, const WorkerUpdate& update) {
  Deliver(call, [this, key = call.key, update] { dispatcher_.OnWorkerUpdate(key.side, key.key, update); });
}

void DispatcherWorld::SendToken(FakeCall& call, int32_t index) {
  WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kToken);
  update.token.index = index;
  update.token.token = TokenAt(*call.job, index);
  update.token.finish = FinishAt(*call.job, index);
  SendUpdate(call, update);
}

void DispatcherWorld::Pump() {
  for (auto actions = dispatcher_.TakeActions(); !actions.empty(); actions = dispatcher_.TakeActions()) {
    for (const DispatchAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
  CheckBounds();
}

DispatcherWorld::FakeJob& DispatcherWorld::LiveJob(const ChoiceKey& key) {
  FakeJob& job = jobs_.at(key);
  EXPECT_FALSE(job.ended) << "job " << key.ToString() << " lives on after its end";
  return job;
}

void DispatcherWorld::StartCall(FakeCall call, const std::string& target) {
  FakeJob& job = LiveJob(call.key.key.choice_key());
  CheckGoesOn(*call.job, job, call.moved);
  CheckFingerprint(call, job);
  EXPECT_GE(call.key.key.attempt, job.attempts);
  for (uint32_t attempt = 1; attempt < call.key.key.attempt; ++attempt) {
    for (const Side side : {Side::kPrefill, Side::kDecode}) {
      const auto earlier = calls_.find({side, {.job = job.spec->id, .attempt = attempt, .choice = job.spec->choice}});
      EXPECT_TRUE(earlier == calls_.end() || earlier->second.cancel_asked || earlier->second.ended ||
                  earlier->second.is_source)
          << "two attempts at once";
    }
  }
  if (job.attempts != call.key.key.attempt) ++job.placed;
  job.attempts = call.key.key.attempt;
  job.local = call.local;
  EXPECT_EQ(target, workers_.at(call.worker).info.target);
  const CallKey key = call.key;
  AtWorker(call.worker, RandomNs(3), [this, key] {
    if (const auto it = calls_.find(key); it != calls_.end()) Arrive(it->second);
  });
  EXPECT_TRUE(calls_.emplace(key, std::move(call)).second);
}

// An attempt begins where the client's output ends, with the client's prompt and exactly that output. The last token
// comes with the KV of a job that has moved.
void DispatcherWorld::CheckGoesOn(const JobSpec& attempt, const FakeJob& job, bool moved) {
  EXPECT_EQ(attempt.emitted, job.tokens - (moved ? 1 : 0));
  ASSERT_EQ(attempt.client_prompt_tokens(), job.spec->prompt_tokens());
  const std::vector<int32_t>& prompt = job.spec->prompt;
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), attempt.prompt.begin()));
  for (int32_t i = 0; i < attempt.emitted; ++i) {
    EXPECT_EQ(attempt.prompt[prompt.size() + static_cast<size_t>(i)], TokenAt(*job.spec, i));
  }
}

void DispatcherWorld::CheckFingerprint(const FakeCall& call, FakeJob& job) {
  const std::string& fingerprint = workers_.at(call.worker).info.fingerprint;
  EXPECT_TRUE(job.tokens == 0 || fingerprint == job.fingerprint || job.spec->allows_other_numerics)
      << "goes on at other numerics unasked";
  std::string& of_attempt = attempts_[call.key.key].fingerprint;
  EXPECT_TRUE(of_attempt.empty() || of_attempt == fingerprint) << "an attempt of two fingerprints";
  // A move stays where the job is, and a job whose client has nothing begins anywhere.
  EXPECT_TRUE(!call.moved || fingerprint == job.fingerprint) << "KV moves to another fingerprint";
  of_attempt = fingerprint;
  job.attempt_fingerprint = fingerprint;
}

void DispatcherWorld::NoteFingerprint(FakeJob& job, const OutputToken& token) {
  if (token.index == 0) job.first_fingerprint = job.attempt_fingerprint;
  const bool changes = token.index > 0 && job.fingerprint != job.attempt_fingerprint;
  if (changes && !job.other_numerics_from) {
    job.other_numerics_from = token.index;
    ++result_.switched;
  } else if (changes && job.first_fingerprint == job.attempt_fingerprint) {
    ++result_.returned;
  }
  job.fingerprint = job.attempt_fingerprint;
  EXPECT_EQ(token.other_numerics, job.other_numerics_from.has_value()) << "output " << token.index;
}

void DispatcherWorld::Handle(const StartPrefill& start) {
  EXPECT_EQ(start.solo, start.job->sampling.max_tokens == start.job->emitted + 1);
  StartCall({.key = {Side::kPrefill, start.key}, .worker = start.worker, .job = start.job, .solo = start.solo},
            start.target);
}

void DispatcherWorld::Handle(const StartDecode& start) {
  const auto source = calls_.find(SourceOf(start.key));
  const bool moved = source != calls_.end() && source->second.is_source && !source->second.cancel_asked;
  if (moved) {
    ++result_.moves;
    EXPECT_EQ(start.prefill_target, workers_.at(source->second.worker).info.target);
    EXPECT_NE(start.worker, source->second.worker);
    EXPECT_FALSE(start.local_prefill);
  }
  StartCall({.key = {Side::kDecode, start.key},
             .worker = start.worker,
             .job = start.job,
             .local = start.local_prefill,
             .moved = moved},
            start.target);
}

void DispatcherWorld::TakeBack(FakeCall& call) {
  ++result_.taken_back;
  EXPECT_TRUE(call.is_source);
  AtWorker(call.worker, RandomNs(3), [this, key = call.key] {
    FakeCall* open = Find(key);
    if (open == nullptr) return;
    open->is_source = false;
    open->hand_over = false;
    DecodeFrom(key, open->next_index);
  });
}

void DispatcherWorld::Handle(const HandOverAttempt& move) {
  const auto it = calls_.find({Side::kDecode, move.key});
  ASSERT_NE(it, calls_.end()) << "moves a call that is over";
  EXPECT_FALSE(it->second.cancel_asked);
  EXPECT_EQ(move.worker, it->second.worker);
  if (move.hand_over.is_taken_back()) return TakeBack(it->second);
  EXPECT_FALSE(it->second.is_source);
  EXPECT_TRUE(sources_.emplace(move.hand_over.next, it->first.key).second) << "an attempt's number is given twice";
  EXPECT_TRUE(workers_.at(move.worker).draining);
  AtWorker(move.worker, RandomNs(3), [this, key = it->first] {
    if (FakeCall* call = Find(key)) call->hand_over = true;
  });
}

void DispatcherWorld::Handle(const CancelAttempt& cancel) {
  const auto it = calls_.find({cancel.side, cancel.key});
  ASSERT_NE(it, calls_.end()) << "cancels a call that is over";
  FakeCall& call = it->second;
  EXPECT_FALSE(call.cancel_asked) << "cancels twice";
  EXPECT_EQ(cancel.worker, call.worker);
  call.cancel_asked = true;
  AtWorker(call.worker, RandomNs(3), [this, key = it->first] {
    const auto open = calls_.find(key);
    if (open != calls_.end()) EndCall(open->second, absl::CancelledError("the router cancelled"));
  });
}

void DispatcherWorld::Handle(const EndMembership& end) {
  EXPECT_EQ(dispatcher_.registry().Find(end.worker), nullptr);
  DropCalls(end.worker);
}

void DispatcherWorld::Handle(const EmitToken& emit) {
  FakeJob& job = LiveJob(emit.key);
  EXPECT_EQ(emit.token.index, job.tokens) << "job " << emit.key.ToString();
  EXPECT_EQ(emit.token.token, TokenAt(*job.spec, emit.token.index));
  NoteFingerprint(job, emit.token);
  ++job.tokens;
  if (options_.unread_percent > 0 && Chance(options_.unread_percent)) {
    dispatcher_.Pause(emit.key);
    After(RandomNs(200), [this, key = emit.key] { dispatcher_.Continue(key); });
  }
  // The client's listener drops tokens that come between the stop and the end.
  if (job.tokens != job.stop_after) return;
  job.stopped = true;
  dispatcher_.Cancel(emit.key, absl::OkStatus());
}

void DispatcherWorld::Handle(const EndJob& end) {
  FakeJob& job = LiveJob(end.key);
  job.ended = true;
  --unended_;
  const JobResult& result = end.result;
  if (!result.status.ok() && GetRefusalReason(result.status) == RefusalReason::kPoisoned) {
    EXPECT_TRUE(job.poison) << "a bystander is refused";
    ++result_.poisoned;
  } else {
    ++(result.status.ok() ? result_.ok : result_.failed);
    if (!result.status.ok()) result_.errors.insert(result.status.ToString());
  }
  EXPECT_LE(job.killed, 2) << "of job " << end.key.ToString();
  result_.attempts += result.attempts;
  result_.pauses += result.pauses;
  EXPECT_EQ(result.output_tokens, job.tokens);
  EXPECT_EQ(result.other_numerics_from, job.other_numerics_from);
  EXPECT_EQ(result.fingerprint, job.fingerprint);
  EXPECT_EQ(result.attempts, job.placed);
  const PhaseTimes& phases = result.phases;
  EXPECT_EQ(phases.queue_ns + phases.admission_ns + phases.prefill_ns + phases.transfer_ns + phases.decode_ns,
            clock_.Now() - job.submitted);
  if (!result.status.ok()) {
    if (GetRefusalReason(result.status) == RefusalReason::kDeadline) {
      EXPECT_EQ(job.tokens, 0) << "dropped with outputs";
      EXPECT_LT(clock_.Now(), job.spec->deadline);
      ++result_.dropped;
    }
    EXPECT_TRUE(!absl::IsDeadlineExceeded(result.status) || clock_.Now() >= job.spec->deadline);
    return;
  }
  EXPECT_TRUE(job.stopped || job.tokens == OutputLength(*job.spec)) << "job " << end.key.ToString() << " is cut short";
  EXPECT_NE(result.finish, FinishReason::kNone);
  if (options_.error_percent > 0 || options_.faults > 0) return;
  EXPECT_EQ(result.kv_digest, job.spec->want_kv_digest && !job.local ? "digest" : "") << "job " << end.key.ToString();
}

void DispatcherWorld::CheckBounds() {
  const DispatcherOptions& options = options_.dispatcher;
  EXPECT_LE(dispatcher_.running_jobs(), options.max_running_jobs);
  EXPECT_LE(dispatcher_.queued_jobs(), options.max_queued_jobs + options.max_running_jobs);
  EXPECT_EQ(dispatcher_.open_calls(), static_cast<int32_t>(calls_.size()));
  EXPECT_LE(dispatcher_.paused_jobs(), options.max_running_jobs);
  EXPECT_EQ(dispatcher_.queued_jobs() + dispatcher_.running_jobs() + dispatcher_.paused_jobs(), unended_);
}

void DispatcherWorld::CheckLedger() {
  for (const auto& [id, assigned] : dispatcher_.assigned()) {
    EXPECT_EQ(assigned.jobs, 0) << id.low;
    EXPECT_EQ(assigned.reserved_blocks, 0) << id.low;
    EXPECT_EQ(assigned.uncomputed_prompt_tokens, 0) << id.low;
    EXPECT_NE(dispatcher_.registry().Find(id), nullptr) << "a lost worker is remembered";
  }
}

}  // namespace baton::router
