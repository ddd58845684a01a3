#include "router/testing/load_world.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "router/error_details.h"
#include "router/tenant_shares.h"

namespace baton::router {
namespace {

WorkerUpdate UpdateOf(WorkerUpdate::Kind kind) {
  WorkerUpdate update;
  update.kind = kind;
  return update;
}

WorkerUpdate TokenUpdate(const JobSpec& spec, int32_t index) {
  WorkerUpdate update = UpdateOf(WorkerUpdate::Kind::kToken);
  const bool is_last = index + 1 == spec.sampling.max_tokens;
  update.token = {.index = index, .token = 7, .finish = is_last ? FinishReason::kLength : FinishReason::kNone};
  return update;
}

DispatcherOptions WithoutSilence(DispatcherOptions options) {
  options.worker_silence_ms = 1'000'000'000;
  return options;
}

}  // namespace

double LoadResult::WorstTtftMs(double share) const {
  if (ttft_ms.empty()) return 0;
  std::vector<double> sorted = ttft_ms;
  std::sort(sorted.begin(), sorted.end());
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

LoadWorld::LoadWorld(uint64_t seed, const DispatcherOptions& options, const LoadWorkers& workers)
    : workers_(workers),
      random_(seed),
      slowdowns_(seed),
      victims_(seed),
      dispatcher_(WithoutSilence(options), clock_, secrets_) {
  Join(WorkerRole::kPrefill);
  for (int i = 0; i < workers.decode_workers; ++i) Join(WorkerRole::kDecode);
}

void LoadWorld::Join(WorkerRole role) {
  WorkerInfo info = MakeWorker(next_worker_++, role);
  info.total_blocks = 10'000;
  info.max_sequences = workers_.max_sequences;
  info.chunk_tokens = 256;
  EXPECT_TRUE(dispatcher_.OnWorkerJoin(info).ok());
  if (role == WorkerRole::kDecode) decode_workers_.push_back(info.id);
}

void LoadWorld::KillOne(int64_t returns_after_ms) {
  if (decode_workers_.empty()) return;
  const size_t drawn = victims_.Below(decode_workers_.size());
  const WorkerId victim = decode_workers_[drawn];
  decode_workers_.erase(decode_workers_.begin() + static_cast<int64_t>(drawn));
  std::erase_if(calls_, [&](const auto& call) { return call.second.worker == victim; });
  dispatcher_.OnWorkerLost(victim, absl::UnavailableError("it was killed"));
  clock_.After(returns_after_ms * kNsPerMs, [this] { Join(WorkerRole::kDecode); });
}

int64_t LoadWorld::Slowed(int64_t ns) {
  if (NowMs() >= slowed_since_ms_ + 1'000) {
    slowed_since_ms_ = NowMs();
    slowdown_ = 1 + (workers_.worst_slowdown - 1) * static_cast<double>(slowdowns_.Below(1'001)) / 1'000;
  }
  return static_cast<int64_t>(static_cast<double>(ns) * slowdown_);
}

void LoadWorld::Add(const LoadOptions& load) {
  At(load.from_ms, [this, load] {
    for (int i = 0; i < load.at_once; ++i) Send({.load = load, .spec = {}, .first_token = {}});
    if (load.requests_per_second > 0) SendNext(load);
  });
}

// The times between requests are distributed exponentially.
void LoadWorld::SendNext(const LoadOptions& load) {
  const double drawn = (static_cast<double>(random_.Below(1u << 30)) + 1) / (1u << 30);
  clock_.After(static_cast<int64_t>(-std::log(drawn) / load.requests_per_second * 1e9), [this, load] {
    if (NowMs() >= load.until_ms) return;
    Send({.load = load, .spec = {}, .first_token = {}});
    SendNext(load);
  });
}

void LoadWorld::Send(Client client) {
  const LoadOptions& load = client.load;
  const TimeNs now = clock_.Now();
  auto spec = std::make_shared<JobSpec>(
      *MakeJob(next_job_++, {.prompt_tokens = load.prompt_tokens, .max_tokens = load.max_tokens}));
  spec->tenant = load.tenant;
  spec->priority = load.priority;
  spec->least_outputs = load.max_tokens;
  if (load.deadline_ms > 0) spec->deadline = After(now, load.deadline_ms);
  client.spec = spec;
  client.sent = now;
  LoadResult& result = results_[load.tenant];
  ++(client.is_back ? result.came_back : result.sent);
  const absl::Status status = dispatcher_.Submit(spec);
  if (status.ok()) {
    clients_.emplace(spec->key(), std::move(client));
    return;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  const std::optional<int64_t> retry_after_ms = GetRetryAfterMs(status);
  ASSERT_TRUE(retry_after_ms.has_value());
  ++(client.is_back ? result.refused_again : result.refused);
  if (!load.comes_back || client.is_back) return;
  client.is_back = true;
  clock_.After(*retry_after_ms * kNsPerMs, [this, client] { Send(client); });
}

void LoadWorld::Run() {
  const TimeNs end = VirtualTime::kStart + 3'600 * kNsPerSecond;
  while (!::testing::Test::HasFailure() && (!clock_.empty() || !clients_.empty())) {
    if (!clock_.RunNext(std::min(dispatcher_.NextTimer(), end))) dispatcher_.OnTimer();
    Pump();
    ASSERT_LT(clock_.Now(), end) << clients_.size() << " jobs hang";
  }
}

void LoadWorld::Pump() {
  for (auto actions = dispatcher_.TakeActions(); !actions.empty(); actions = dispatcher_.TakeActions()) {
    for (const DispatchAction& action : actions) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
  }
}

void LoadWorld::Handle(const StartPrefill& start) {
  calls_[{Side::kPrefill, start.key}] = {.worker = start.worker, .job = start.job};
  prompts_.push_back(start);
  if (prompts_.size() == 1) Compute();
}

void LoadWorld::Handle(const StartDecode& start) {
  calls_[{Side::kDecode, start.key}] = {.worker = start.worker, .job = start.job};
  clock_.After(0, [this, key = start.key] {
    if (calls_.contains({Side::kDecode, key})) {
      dispatcher_.OnWorkerUpdate(Side::kDecode, key, UpdateOf(WorkerUpdate::Kind::kStarted));
    }
  });
}

void LoadWorld::Compute() {
  const JobKey key = prompts_.front().key;
  clock_.After(0, [this, key] {
    if (calls_.contains({Side::kPrefill, key})) {
      dispatcher_.OnWorkerUpdate(Side::kPrefill, key, UpdateOf(WorkerUpdate::Kind::kStarted));
    }
  });
  const int64_t tokens = prompts_.front().job->prompt_tokens();
  clock_.After(Slowed(kPrefillNsPerToken * tokens), [this, key] {
    const StartPrefill done = prompts_.front();
    prompts_.pop_front();
    if (!prompts_.empty()) Compute();
    if (calls_.erase({Side::kPrefill, key}) == 0) return;
    const int32_t first = done.job->emitted;
    dispatcher_.OnWorkerUpdate(Side::kPrefill, key, TokenUpdate(*done.job, first));
    dispatcher_.OnWorkerUpdate(Side::kPrefill, key, UpdateOf(WorkerUpdate::Kind::kFinished));
    dispatcher_.OnWorkerEnd(Side::kPrefill, key, absl::OkStatus());
    Decode(key, first + 1);
  });
}

void LoadWorld::Decode(const JobKey& key, int32_t index) {
  clock_.After(Slowed(kStepNs), [this, key, index] {
    const auto it = calls_.find({Side::kDecode, key});
    if (it == calls_.end()) return;
    const std::shared_ptr<const JobSpec> job = it->second.job;
    dispatcher_.OnWorkerUpdate(Side::kDecode, key, TokenUpdate(*job, index));
    if (index + 1 < job->sampling.max_tokens) return Decode(key, index + 1);
    calls_.erase(it);
    dispatcher_.OnWorkerUpdate(Side::kDecode, key, UpdateOf(WorkerUpdate::Kind::kFinished));
    dispatcher_.OnWorkerEnd(Side::kDecode, key, absl::OkStatus());
  });
}

void LoadWorld::Handle(const CancelAttempt& cancel) {
  calls_.erase({cancel.side, cancel.key});
  clock_.After(0, [this, cancel] { dispatcher_.OnWorkerEnd(cancel.side, cancel.key, kCancelledCall); });
}

void LoadWorld::Handle(const EmitToken& emit) {
  Client& client = clients_.at(emit.key);
  if (!client.first_token) client.first_token = clock_.Now();
  ++client.outputs;
}

void LoadWorld::Handle(const EndJob& end) {
  const auto it = clients_.find(end.key);
  const Client& client = it->second;
  LoadResult& result = results_[client.load.tenant];
  result.served_cost += client.outputs == 0 ? 0 : client.load.prompt_tokens + kOutputTokenCost * client.outputs;
  result.last_end_ms = NowMs();
  if (end.result.status.ok()) {
    ++result.ok;
    result.ttft_ms.push_back(NsToMs(*client.first_token - client.sent));
  } else {
    ++result.failed;
  }
  const LoadOptions load = client.load;
  clients_.erase(it);
  if (load.closed_loop && NowMs() < load.until_ms) Send({.load = load, .spec = {}, .first_token = {}});
}

}  // namespace baton::router
