#include "simulator/workload.h"

#include <algorithm>

#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

constexpr int kBases = 2;
constexpr int32_t kMaxPrompt = 200;
constexpr int32_t kMaxOutput = 40;
// The longest output of one request in five, so that decode outgrows its pool.
constexpr int32_t kMaxLongOutput = 120;
// All requests of a run come within the first of these times, or nearly at once, within the second.
constexpr int64_t kMaxArrivalMs = 500;
constexpr int64_t kMaxBurstMs = 40;

}  // namespace

Workload::Workload(Simulation& sim) : sim_(sim) {
  for (int base = 0; base < kBases; ++base) {
    std::vector<int32_t>& tokens = bases_.emplace_back();
    for (int32_t i = 0; i < kMaxPrompt; ++i) tokens.push_back(static_cast<int32_t>(sim.Between(0, 62)));
  }
}

std::vector<int32_t> Workload::DrawPrompt() {
  const size_t length = static_cast<size_t>(sim_.Between(1, sim_.Chance(50) ? kMaxPrompt : 40));
  const size_t shared = sim_.Chance(50) ? static_cast<size_t>(sim_.Between(0, static_cast<int64_t>(length))) : 0;
  const std::vector<int32_t>& base = bases_[static_cast<size_t>(sim_.Between(0, kBases - 1))];
  std::vector<int32_t> prompt(base.begin(), base.begin() + static_cast<ptrdiff_t>(shared));
  while (prompt.size() < length) prompt.push_back(static_cast<int32_t>(sim_.Between(0, 62)));
  return prompt;
}

SamplingParams Workload::DrawSampling() {
  SamplingParams sampling;
  sampling.max_tokens =
      sim_.Chance(6) ? 1 : static_cast<int32_t>(sim_.Between(2, sim_.Chance(20) ? kMaxLongOutput : kMaxOutput));
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
  spec.sampling = DrawSampling();
  if (sim_.Chance(25)) spec.tenant = "other";
  if (sim_.Chance(20)) spec.deadline = submitted + sim_.MsBetween(5, 400);
  spec.want_kv_digest = sim_.Chance(30);
  return std::make_shared<const router::JobSpec>(std::move(spec));
}

void Workload::Schedule(RouterNode& router) {
  const int64_t count = sim_.Between(8, 32);
  const int64_t max_arrival_ms = sim_.Chance(40) ? kMaxBurstMs : kMaxArrivalMs;
  for (int64_t i = 0; i < count; ++i) {
    const TimeNs submitted = sim_.queue.Now() + sim_.MsBetween(0, max_arrival_ms);
    Job job;
    job.spec = DrawSpec(submitted);
    job.expected = engine::FakeModelTokens(sim_.model, job.spec->prompt, job.spec->sampling, {kEosId});
    const ChoiceKey key = job.spec->key();
    jobs_.emplace(key, std::move(job));
    ++open_;
    sim_.queue.At(submitted, [this, &router, key] { Submit(router, key); });
    last_event_ = std::max(last_event_, submitted);
    if (!sim_.Chance(33)) continue;
    const TimeNs given_up = submitted + sim_.MsBetween(0, sim_.Chance(50) ? 300 : 30);
    // OK stands for a stop string that matched.
    const absl::Status why = sim_.Chance(20) ? absl::OkStatus() : absl::CancelledError("the client left");
    sim_.queue.At(given_up, [this, &router, key, why] { GiveUp(router, key, why); });
    last_event_ = std::max(last_event_, given_up);
  }
}

void Workload::Submit(RouterNode& router, const ChoiceKey& key) {
  const Job& job = jobs_.at(key);
  sim_.Trace("client: ", key.ToString(), " submits ", job.spec->prompt.size(), " tokens for ", job.expected.size());
  router.Post([this, spec = job.spec](router::Dispatcher& dispatcher) {
    if (absl::Status status = dispatcher.Submit(spec); !status.ok()) sim_.Fail("refused: " + status.ToString());
  });
}

void Workload::GiveUp(RouterNode& router, const ChoiceKey& key, const absl::Status& why) {
  Job& job = jobs_.at(key);
  if (job.ended) return;
  sim_.Trace("client: ", key.ToString(), " gives up");
  job.gave_up = true;
  job.why = why;
  router.Post([key, why](router::Dispatcher& dispatcher) { dispatcher.Cancel(key, why); });
}

void Workload::OnPlaced(const JobKey& key, const Incarnation& worker) {
  Job& job = jobs_.at(key.choice_key());
  if (job.attempt != key.attempt) job.workers.clear();
  job.attempt = key.attempt;
  job.workers.push_back(worker);
}

bool Workload::MayBeLost(const Job& job) const {
  if (sim_.cut_jobs.contains(job.spec->id)) return true;
  return std::find(job.workers.begin(), job.workers.end(), sim_.crashed) != job.workers.end();
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
  if (token.is_last() != (index + 1 == job.expected.size()))
    Wrong(job, absl::StrCat("token ", index, " ends it wrongly"));
  job.got.push_back(token.token);
}

void Workload::OnEnd(const ChoiceKey& key, const router::JobResult& result) {
  Job& job = jobs_.at(key);
  sim_.Trace("client: ", key.ToString(), " ends after ", job.got.size(), " tokens: ", result.status.ToString());
  if (job.ended) return Wrong(job, "ends twice");
  job.ended = true;
  --open_;
  if (result.output_tokens != static_cast<int32_t>(job.got.size())) Wrong(job, "counts its tokens wrong");
  result.status.ok() ? CheckOk(job, result) : CheckError(job, result.status);
}

void Workload::CheckOk(const Job& job, const router::JobResult& result) {
  ++sim_.counts.ok;
  if (!result.kv_digest.empty()) CheckDigest(job, result.kv_digest);
  // The router waits for the digest until the deadline.
  const bool in_time = sim_.queue.Now() < job.spec->deadline;
  if (job.spec->want_kv_digest && result.kv_digest.empty() && in_time && !MayBeLost(job) && !job.gave_up) {
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
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      ++sim_.counts.failed;
      if (MayBeLost(job)) return;
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
