#include "simulator/workload.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "router/refusal_reason.h"
#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

constexpr int kBases = 2;
constexpr int32_t kMaxPrompt = 200;
constexpr int32_t kMaxOutput = 40;
// The longest output of one request in five, so that decode outgrows its pool.
constexpr int32_t kMaxLongOutput = 120;
constexpr int32_t kProbePromptTokens = 32;
constexpr int32_t kProbeOutputTokens = 30;
// A client that finds no router tries again after this time.
constexpr int64_t kReconnectNs = 20 * kNsPerMs;
// Workers refuse a request that is in no trouble at most this often. One that is refused again and again starves.
constexpr int32_t kMaxAttempts = 50;
// No request that lives in no trouble waits longer for its end.
constexpr int64_t kMaxWaitNs = 10 * kNsPerSecond;
constexpr int64_t kMaxFlowWaitNs = 90 * kNsPerSecond;

}  // namespace

Workload::Workload(Simulation& sim, RouterDirectory& routers) : sim_(sim), routers_(routers) {
  for (int base = 0; base < kBases; ++base) {
    std::vector<int32_t>& tokens = bases_.emplace_back();
    for (int32_t i = 0; i < kMaxPrompt; ++i) tokens.push_back(static_cast<int32_t>(sim.Between(0, 62)));
  }
}

std::vector<int32_t> Workload::DrawPrompt() {
  int64_t least = 1;
  int64_t most = sim_.Chance(50) ? kMaxPrompt : 40;
  if (options_.flows) most = sim_.Chance(10) ? kMaxPrompt : 24;
  if (options_.small_worker_tokens > 0) most = std::min<int64_t>(most, options_.small_worker_tokens - kMaxOutput - 32);
  if (options_.small_worker_tokens > 0 && sim_.Chance(options_.flows ? 30 : 15)) {
    least = options_.small_worker_tokens + 1;
    most = kMaxPrompt;
  }
  const size_t length = static_cast<size_t>(sim_.Between(least, most));
  const size_t shared = sim_.Chance(50) ? static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(length))) : 0;
  const std::vector<int32_t>& base = bases_[static_cast<size_t>(sim_.Between(0, kBases - 1))];
  std::vector<int32_t> prompt(base.begin(), base.begin() + static_cast<ptrdiff_t>(shared));
  while (prompt.size() < length) prompt.push_back(static_cast<int32_t>(sim_.Between(0, 62)));
  return prompt;
}

SamplingParams Workload::DrawSampling(int32_t prompt_tokens) {
  SamplingParams sampling;
  const bool may_be_long = options_.small_worker_tokens == 0 || prompt_tokens > options_.small_worker_tokens;
  const bool is_large = options_.flows && prompt_tokens > kMaxPrompt / 2;
  const int32_t most = may_be_long && sim_.Chance(is_large ? 60 : 20) ? kMaxLongOutput : kMaxOutput;
  sampling.max_tokens = sim_.Chance(options_.flows ? 20 : 6) ? 1 : static_cast<int32_t>(sim_.Between(2, most));
  sampling.ignore_eos = sim_.Chance(50);
  sampling.seed = sim_.random.Next64();
  if (sim_.Chance(60)) sampling.temperature = 0.5f + static_cast<float>(sim_.Between(0, 10)) * 0.1f;
  if (sim_.Chance(20)) sampling.top_k = 8;
  if (sim_.Chance(10)) sampling.repetition_penalty = 1.2f;
  if (sim_.Chance(10)) sampling.stop_token_ids = {static_cast<int32_t>(sim_.Between(0, 62))};
  if (sim_.Chance(10)) sampling.logprobs = 2;
  return sampling;
}

std::shared_ptr<const router::JobSpec> Workload::DrawSpec(TimeNs submitted) {
  router::JobSpec spec;
  spec.id = sim_.random.NextId();
  spec.prompt = DrawPrompt();
  spec.sampling = DrawSampling(static_cast<int32_t>(spec.prompt.size()));
  if (sim_.Chance(25)) spec.tenant = "other";
  if (!options_.flows && sim_.Chance(20)) spec.deadline = submitted + sim_.MsBetween(5, 400);
  spec.want_kv_digest = sim_.Chance(30);
  return std::make_shared<const router::JobSpec>(std::move(spec));
}

Workload::Job& Workload::AddJob(std::shared_ptr<const router::JobSpec> spec, TimeNs submitted) {
  const ChoiceKey key = spec->key();
  Job& job = jobs_[key];
  job.spec = std::move(spec);
  job.submitted = submitted;
  job.expected = engine::FakeModelTokens(sim_.model, job.spec->prompt, job.spec->sampling, {kEosId});
  ++open_;
  sim_.queue.At(submitted, [this, key] { Submit(key); });
  last_event_ = std::max(last_event_, submitted);
  return job;
}

void Workload::Schedule(const WorkloadOptions& options) {
  options_ = options;
  const int64_t count = options.flows ? sim_.Between(60, 180) : sim_.Between(8, 32);
  for (int64_t i = 0; i < count; ++i) {
    const TimeNs submitted = sim_.queue.Now() + sim_.MsBetween(0, options.arrival_ms);
    const ChoiceKey key = AddJob(DrawSpec(submitted), submitted).spec->key();
    if (options.flows || !sim_.Chance(33)) continue;
    const TimeNs given_up = submitted + sim_.MsBetween(0, sim_.Chance(50) ? 300 : 30);
    // OK stands for a stop string that matched.
    const absl::Status why = sim_.Chance(20) ? absl::OkStatus() : absl::CancelledError("the client left");
    sim_.queue.At(given_up, [this, key, why] { GiveUp(key, why); });
    last_event_ = std::max(last_event_, given_up);
  }
}

void Workload::Probe(int count, bool decodes) {
  for (int i = 0; i < count; ++i) {
    router::JobSpec spec;
    spec.id = sim_.random.NextId();
    for (int32_t t = 0; t < kProbePromptTokens; ++t) spec.prompt.push_back(static_cast<int32_t>(sim_.Between(0, 62)));
    spec.sampling.max_tokens = decodes ? kProbeOutputTokens : 1;
    spec.sampling.ignore_eos = true;
    AddJob(std::make_shared<const router::JobSpec>(std::move(spec)), sim_.queue.Now());
  }
}

void Workload::Submit(const ChoiceKey& key) {
  Job& job = jobs_.at(key);
  if (job.ended) return;
  RouterNode* router = routers_.FindRouter();
  if (router == nullptr) return sim_.queue.After(kReconnectNs, [this, key] { Submit(key); });
  job.router = router;
  sim_.Trace("client: ", key.ToString(), " submits ", job.spec->prompt.size(), " tokens for ", job.expected.size());
  router->FromClient([this, spec = job.spec](router::Dispatcher& dispatcher) {
    const absl::Status status = dispatcher.Submit(spec);
    if (!status.ok()) OnRefused(spec->key(), status);
  });
}

// Only a request that others make wait may be refused, and only for its own deadline.
void Workload::OnRefused(const ChoiceKey& key, const absl::Status& status) {
  Job& job = jobs_.at(key);
  sim_.Trace("client: ", key.ToString(), " is refused: ", status.ToString());
  ++sim_.counts.deadline;
  job.ended = true;
  --open_;
  if (router::GetRefusalReason(status) == router::RefusalReason::kDeadline && job.spec->deadline != kNever) return;
  Wrong(job, "is refused: " + status.ToString());
}

void Workload::GiveUp(const ChoiceKey& key, const absl::Status& why) {
  Job& job = jobs_.at(key);
  if (job.ended) return;
  sim_.Trace("client: ", key.ToString(), " gives up");
  job.gave_up = true;
  job.why = why;
  RouterNode* router = routers_.FindRouter();
  if (job.router == nullptr || router != job.router) {
    // It has not even sent its request.
    ++sim_.counts.cancelled;
    job.ended = true;
    --open_;
    return;
  }
  router->FromClient([key, why](router::Dispatcher& dispatcher) { dispatcher.Cancel(key, why); });
}

void Workload::OnRouterGone(const RouterNode* router) {
  for (auto& [key, job] : jobs_) {
    if (job.router != router || job.ended) continue;
    ++sim_.counts.failed;
    job.ended = true;
    --open_;
  }
}

void Workload::OnPlaced(const JobKey& key, const Incarnation& worker) {
  Job& job = jobs_.at(key.choice_key());
  if (job.attempt != key.attempt) {
    job.workers.clear();
    job.placed = sim_.queue.Now();
  }
  job.attempt = key.attempt;
  job.workers.push_back(worker);
}

bool Workload::MayBeLost(const Job& job) const {
  if (sim_.cut_jobs.contains(job.spec->id)) return true;
  if (job.workers.empty()) return sim_.AnyoneWasTroubled(job.submitted);
  // A router that was away places jobs by what it knew before.
  const TimeNs since = sim_.RouterAwaySince(job.placed);
  return std::any_of(job.workers.begin(), job.workers.end(),
                     [&](const Incarnation& worker) { return sim_.WasTroubled(worker, since); });
}

bool Workload::AnyWaits(TimeNs since, int32_t most_tokens) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const Job& job = entry.second;
    return !job.ended && job.router != nullptr && job.workers.empty() && job.submitted <= since &&
           job.spec->prompt_tokens() <= most_tokens;
  });
}

void Workload::OnToken(const ChoiceKey& key, const OutputToken& token) {
  Job& job = jobs_.at(key);
  ++sim_.counts.tokens;
  const size_t index = job.got.size();
  if (job.ended) return Wrong(job, "a token after the end");
  if (token.index != static_cast<int32_t>(index)) return Wrong(job, absl::StrCat("token ", token.index, " is late"));
  if (index >= job.expected.size()) return Wrong(job, "too many tokens");
  if (token.token != job.expected[index]) {
    Wrong(job, absl::StrCat("token ", index, " is ", token.token, ", not ", job.expected[index]));
  }
  if (token.is_last() != (index + 1 == job.expected.size())) {
    Wrong(job, absl::StrCat("token ", index, " ends it wrongly"));
  }
  job.got.push_back(token.token);
}

void Workload::OnEnd(const ChoiceKey& key, const router::JobResult& result) {
  Job& job = jobs_.at(key);
  sim_.Trace("client: ", key.ToString(), " ends after ", job.got.size(), " tokens: ", result.status.ToString());
  if (job.ended) return Wrong(job, "ends twice");
  job.ended = true;
  --open_;
  if (const int64_t wait_ns = sim_.queue.Now() - job.submitted; !sim_.AnyoneWasTroubled(job.submitted)) {
    longest_wait_ns_ = std::max(longest_wait_ns_, wait_ns);
    if (wait_ns > (options_.flows ? kMaxFlowWaitNs : kMaxWaitNs)) {
      Wrong(job, absl::StrCat("waits ", wait_ns / kNsPerMs, " ms"));
    }
    most_attempts_ = std::max(most_attempts_, result.attempts);
    if (result.attempts > kMaxAttempts) Wrong(job, absl::StrCat("is placed ", result.attempts, " times"));
  }
  if (result.output_tokens != static_cast<int32_t>(job.got.size())) Wrong(job, "counts its tokens wrong");
  result.status.ok() ? CheckOk(job, result) : CheckError(job, result.status);
}

void Workload::CheckOk(const Job& job, const router::JobResult& result) {
  ++sim_.counts.ok;
  served_.insert(job.workers.begin(), job.workers.end());
  if (!result.kv_digest.empty()) CheckDigest(job, result.kv_digest);
  // The router waits for the digest until the deadline.
  const bool in_time = sim_.queue.Now() < job.spec->deadline;
  const bool troubled = MayBeLost(job) || sim_.AnyoneWasTroubled(job.submitted);
  if (job.spec->want_kv_digest && result.kv_digest.empty() && in_time && !troubled && !job.gave_up) {
    Wrong(job, "ends without its digest");
  }
  if (job.gave_up && job.why.ok() && result.finish == FinishReason::kStop) return;
  if (job.got.size() != job.expected.size()) return Wrong(job, "ends too early, and well");
  const std::vector<int32_t>& stops = job.spec->sampling.stop_token_ids;
  const int32_t last = job.got.back();
  const bool stopped =
      (last == kEosId && !job.spec->sampling.ignore_eos) || std::find(stops.begin(), stops.end(), last) != stops.end();
  if (result.finish != (stopped ? FinishReason::kStop : FinishReason::kLength))
    Wrong(job, "has the wrong finish reason");
}

// Equal prompts have equal digests, whoever computed them.
void Workload::CheckDigest(const Job& job, const std::string& digest) {
  const std::string& known = digests_.emplace(job.spec->prompt, digest).first->second;
  if (known != digest) Wrong(job, "has another digest than the same prompt before");
}

// Every error must have a reason that the client gave, or a fault that befell the job itself. A wait that only a timer
// has ended shows here as UNAVAILABLE or NOT_FOUND.
void Workload::CheckError(const Job& job, const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      ++sim_.counts.cancelled;
      if (job.gave_up && !job.why.ok()) return;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      ++sim_.counts.deadline;
      if (job.spec->deadline <= sim_.queue.Now()) return;
      break;
    case absl::StatusCode::kResourceExhausted:
      ++sim_.counts.deadline;
      if (router::GetRefusalReason(status) == router::RefusalReason::kDeadline && job.got.empty() &&
          job.spec->deadline != kNever) {
        return;
      }
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDataLoss:
      ++sim_.counts.failed;
      if (MayBeLost(job)) return;
      // However often it was placed before.
      if (absl::StrContains(status.message(), "no workers") && sim_.AnyoneWasTroubled(job.submitted)) return;
      break;
    case absl::StatusCode::kInvalidArgument:
      ++sim_.counts.failed;
      // The only worker that holds such a prompt may be away.
      if (options_.small_worker_tokens > 0 && sim_.AnyoneWasTroubled(job.submitted)) return;
      break;
    default:
      break;
  }
  Wrong(job, "ends without a cause: " + status.ToString());
}

std::string Workload::Open() const {
  std::string open;
  for (const auto& [key, job] : jobs_) {
    if (!job.ended) absl::StrAppend(&open, " ", key.ToString(), " after ", job.got.size(), " tokens");
  }
  return open;
}

}  // namespace baton::simulator
