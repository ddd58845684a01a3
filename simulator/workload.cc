#include "simulator/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "router/refusal_reason.h"
#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

constexpr int32_t kProbePromptTokens = 32;
constexpr int32_t kProbeOutputTokens = 30;
// A client that finds no router tries again after this time.
constexpr int64_t kReconnectNs = 20 * kNsPerMs;
// Workers refuse a request that is in no trouble at most this often; in 10,000 runs with one router it was 27 times.
// One that is refused again and again starves.
constexpr int32_t kMaxAttempts = 36;
// Beside other routers it may be refused for as long as their jobs take all room, by each of a few workers after each
// back-off.
constexpr int64_t kNsPerSharedAttempt = 5 * kNsPerMs;
// No request that lives in no trouble waits longer for its end.
constexpr int64_t kMaxWaitNs = 10 * kNsPerSecond;
constexpr int64_t kMaxFlowWaitNs = 90 * kNsPerSecond;

// Some clients do not read for a while from some output on: for how long, and 0 for all others. Decided by the seed's
// bits, as in RequestMix.
int64_t LeavesUnreadNs(const router::JobSpec& spec, int32_t index) {
  const uint64_t seed = spec.sampling.seed;
  if (seed % 16 != 3 || static_cast<uint64_t>(index) != (seed >> 12) % 16) return 0;
  return static_cast<int64_t>(1 + (seed >> 20) % 64) * 10 * kNsPerMs;
}

}  // namespace

Workload::Workload(Simulation& sim, RouterDirectory& routers)
    : sim_(sim), routers_(routers), mix_(sim), kept_(sim, routers) {}

std::vector<int32_t> Workload::ComputedFor(const router::JobSpec& spec) const {
  return engine::FakeModelTokens(sim_.model, spec.prompt, spec.sampling, {kEosId});
}

Workload::Job& Workload::AddJob(std::shared_ptr<const router::JobSpec> spec, int home, TimeNs submitted) {
  const ChoiceKey key = spec->key();
  Job& job = jobs_[key];
  job.home = home;
  job.spec = std::move(spec);
  job.submitted = submitted;
  job.expected = ComputedFor(*job.spec);
  ++open_;
  sim_.queue.At(submitted, [this, key] { Submit(key); });
  last_event_ = std::max(last_event_, submitted);
  return job;
}

// Decided by the seed's bits, as in RequestMix.
ChoiceKey Workload::AddChoices(const std::shared_ptr<const router::JobSpec>& spec, int home, TimeNs submitted) {
  AddJob(spec, home, submitted);
  const uint64_t seed = spec->sampling.seed;
  const uint32_t choices = seed % 16 == 2 ? 2 + (seed >> 8) % 2 : 1;
  for (uint32_t choice = 1; choice < choices; ++choice) {
    auto other = std::make_shared<router::JobSpec>(*spec);
    other->choice = choice;
    other->follows = 0;
    other->sampling.seed += choice;
    other->want_kv_digest = false;
    AddJob(std::move(other), home, submitted);
  }
  return spec->key();
}

void Workload::Schedule(const WorkloadOptions& options) {
  options_ = options.mix;
  max_wait_ns_ = options_.flows ? kMaxFlowWaitNs : kMaxWaitNs;
  const int64_t count = options_.flows ? sim_.Between(60, 180) : sim_.Between(8, 32);
  for (int64_t i = 0; i < count; ++i) {
    const TimeNs submitted = sim_.queue.Now() + sim_.MsBetween(0, options.arrival_ms);
    const std::shared_ptr<const router::JobSpec> spec = mix_.DrawSpec(options_, submitted);
    const int home = sim_.DrawRouter();
    const bool leaves = !options_.flows && sim_.Chance(33);
    const Leaving leaving = leaves ? DrawLeaving() : Leaving{};
    if (kept_.Takes(*spec)) {
      kept_.Add(*spec, ComputedFor(*spec), home, submitted);
      continue;
    }
    const ChoiceKey key = AddChoices(spec, home, submitted);
    if (leaves) LeaveAfter(key, leaving);
  }
}

Workload::Leaving Workload::DrawLeaving() {
  const int64_t after_ns = sim_.MsBetween(0, sim_.Chance(50) ? 300 : 30);
  // OK stands for a stop string that matched.
  return {.after_ns = after_ns, .why = sim_.Chance(20) ? absl::OkStatus() : absl::CancelledError("the client left")};
}

void Workload::LeaveAfter(const ChoiceKey& key, const Leaving& leaving) {
  const TimeNs given_up = jobs_.at(key).submitted + leaving.after_ns;
  sim_.queue.At(given_up, [this, key, why = leaving.why] { GiveUp(key, why); });
  last_event_ = std::max(last_event_, given_up);
}

void Workload::ScheduleWaves(const MixOptions& mix, const std::vector<Wave>& waves, absl::FunctionRef<bool(int)> kept) {
  options_ = mix;
  max_wait_ns_ = kMaxFlowWaitNs;
  for (const Wave& wave : waves) {
    for (int32_t i = 0; i < wave.requests; ++i) {
      const TimeNs submitted = VirtualTime::kStart + wave.at_ns + sim_.Between(0, wave.within_ns);
      const std::shared_ptr<const router::JobSpec> spec = mix_.DrawSpec(options_, submitted);
      const bool leaves = sim_.Chance(15);
      const Leaving leaving = DrawLeaving();
      const int home = sim_.DrawRouter();
      const bool outlives = kept_.Takes(*spec);
      if (!kept(drawn_++)) continue;
      if (outlives) {
        kept_.Add(*spec, ComputedFor(*spec), home, submitted);
        continue;
      }
      AddChoices(spec, home, submitted);
      if (leaves) LeaveAfter(spec->key(), leaving);
    }
  }
}

void Workload::FillPools(int count) {
  for (int i = 0; i < count; ++i) AddJob(mix_.DrawLargest(options_), sim_.DrawRouter(), sim_.queue.Now());
}

void Workload::SubmitPoison() {
  std::shared_ptr<const router::JobSpec> spec = mix_.DrawLargest(options_);
  sim_.poison.insert(spec->id);
  AddJob(std::move(spec), sim_.DrawRouter(), sim_.queue.Now());
}

void Workload::Probe(int router, int count, bool decodes) {
  for (int i = 0; i < count; ++i) {
    router::JobSpec spec;
    spec.id = sim_.random.NextId();
    for (int32_t t = 0; t < kProbePromptTokens; ++t) spec.prompt.push_back(static_cast<int32_t>(sim_.Between(0, 62)));
    spec.sampling.max_tokens = decodes ? kProbeOutputTokens : 1;
    spec.sampling.ignore_eos = true;
    AddJob(std::make_shared<const router::JobSpec>(std::move(spec)), router, sim_.queue.Now());
  }
}

void Workload::Submit(const ChoiceKey& key) {
  Job& job = jobs_.at(key);
  if (job.ended) return;
  RouterNode* router = routers_.FindRouter(job.home);
  // Another one may be there.
  for (int i = 1; i < sim_.routers && router == nullptr; ++i) {
    job.home = (job.home + 1) % sim_.routers;
    router = routers_.FindRouter(job.home);
  }
  if (router == nullptr) return sim_.queue.After(kReconnectNs, [this, key] { Submit(key); });
  job.router = router;
  sim_.Trace("client: ", key.ToString(), " submits to ", router->name(), " ", job.spec->prompt.size(), " tokens for ",
             job.expected.size());
  router->FromClient([this, router, spec = job.spec](router::Dispatcher& dispatcher) {
    const absl::Status status = dispatcher.Submit(router->ByOwnClock(spec));
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
  RouterNode* router = routers_.FindRouter(job.home);
  if (job.router == nullptr || router != job.router) {
    // It has not even sent its request.
    ++sim_.counts.cancelled;
    job.ended = true;
    --open_;
    return;
  }
  const auto cancel = [key, why](router::Dispatcher& dispatcher) { dispatcher.Cancel(key, why); };
  router->FromClient(cancel);
  if (sim_.Twice()) router->FromClient(cancel);
}

bool Workload::AnyWaits(int router, TimeNs since, int32_t most_tokens) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const Job& job = entry.second;
    // Whoever follows waits for that one.
    if (job.spec->follows.has_value()) return false;
    return !job.ended && job.router != nullptr && job.home == router && job.workers.empty() && job.submitted <= since &&
           job.spec->prompt_tokens() <= most_tokens;
  });
}

void Workload::OnPrompt(const ChoiceKey& key, const std::vector<PromptLogprob>& logprobs) {
  Job& job = jobs_.at(key);
  ++sim_.counts.prompts;
  if (std::exchange(job.has_prompt, true)) return Wrong(job, "the log-probabilities of its prompt twice");
  if (!job.got.empty()) return Wrong(job, "the log-probabilities of its prompt too late");
  const SamplingParams& sampling = job.spec->sampling;
  if (logprobs != engine::FakeModelPromptLogprobs(sim_.model, job.spec->prompt, sampling.prompt_logprobs)) {
    Wrong(job, "wrong log-probabilities of its prompt");
  }
}

void Workload::OnToken(const ChoiceKey& key, const OutputToken& token) {
  Job& job = jobs_.at(key);
  if (job.spec->sampling.prompt_logprobs >= 0 && !job.has_prompt) {
    return Wrong(job, "no log-probabilities of its prompt");
  }
  ++sim_.counts.tokens;
  const size_t index = job.got.size();
  if (job.ended) return Wrong(job, "a token after the end");
  if (token.index != static_cast<int32_t>(index)) return Wrong(job, absl::StrCat("token ", token.index, " is late"));
  if (index >= job.expected.size()) return Wrong(job, "too many tokens");
  if (token.token != job.expected[index]) {
    Wrong(job, absl::StrCat("token ", index, " is ", token.token, ", not ", job.expected[index]));
  }
  const Pooling pooling = job.spec->sampling.pooling;
  if (pooling != Pooling::kNone &&
      token.embedding != engine::FakeModelEmbedding(sim_.model, job.spec->prompt, pooling)) {
    Wrong(job, "a wrong embedding");
  }
  if (token.is_last() != (index + 1 == job.expected.size())) {
    Wrong(job, absl::StrCat("token ", index, " ends it wrongly"));
  }
  job.got.push_back(token.token);
  const int64_t unread_ns = job.is_kept ? 0 : LeavesUnreadNs(*job.spec, token.index);
  if (unread_ns > 0) LeaveUnread(key, unread_ns);
}

void Workload::LeaveUnread(const ChoiceKey& key, int64_t ns) {
  sim_.Trace("client: ", key.ToString(), " does not read for ", ns / kNsPerMs, " ms");
  ++sim_.counts.unread;
  const auto tell = [this, key](void (router::Dispatcher::*event)(const ChoiceKey&)) {
    RouterNode* router = routers_.FindRouter(jobs_.at(key).home);
    if (router == nullptr || router != jobs_.at(key).router) return;
    router->FromClient([key, event](router::Dispatcher& dispatcher) { (dispatcher.*event)(key); });
  };
  tell(&router::Dispatcher::Pause);
  sim_.queue.After(ns, [tell] { tell(&router::Dispatcher::Continue); });
  last_event_ = std::max(last_event_, sim_.queue.Now() + ns);
}

void Workload::OnEnd(const ChoiceKey& key, const router::JobResult& result) {
  Job& job = jobs_.at(key);
  sim_.Trace("client: ", key.ToString(), " ends after ", job.got.size(), " tokens: ", result.status.ToString());
  if (job.ended) return Wrong(job, "ends twice");
  job.ended = true;
  last_end_ = sim_.queue.Now();
  if (!job.is_kept) {
    --open_;
  } else if (kept_.OnJobEnd(key.job, result.status)) {
    ++sim_.counts.failed;
    return;
  }
  longest_life_ns_ = std::max(longest_life_ns_, sim_.queue.Now() - job.submitted);
  if (const int64_t wait_ns = sim_.queue.Now() - job.submitted; !sim_.AnyoneWasTroubled(job.submitted)) {
    longest_wait_ns_ = std::max(longest_wait_ns_, wait_ns);
    if (wait_ns > max_wait_ns_) {
      Wrong(job, absl::StrCat("waits ", wait_ns / kNsPerMs, " ms"));
    }
    // An attempt that was paused was no refusal.
    const int32_t attempts = result.attempts - result.pauses;
    most_attempts_ = std::max(most_attempts_, attempts);
    const int64_t shared_attempts = sim_.routers > 1 ? wait_ns / kNsPerSharedAttempt : 0;
    if (attempts > kMaxAttempts + shared_attempts) Wrong(job, absl::StrCat("is placed ", attempts, " times"));
  }
  if (result.failovers > 0 && !MayFailOver(job)) Wrong(job, "fails over without a cause");
  if (result.output_tokens != static_cast<int32_t>(job.got.size())) Wrong(job, "counts its tokens wrong");
  result.status.ok() ? CheckOk(job, result) : CheckError(job, result);
}

int64_t Workload::OpenWorkNs() const {
  int64_t steps = 0;
  for (const auto& [key, job] : jobs_) {
    if (!job.ended) steps += static_cast<int64_t>(job.expected.size() + job.spec->prompt.size() / kBlockTokens) + 1;
  }
  return steps * sim_.pace.max_step_ns;
}

std::string Workload::Open() const {
  std::string open = kept_.Open();
  for (const auto& [key, job] : jobs_) {
    if (!job.ended) absl::StrAppend(&open, " ", key.ToString(), " after ", job.got.size(), " tokens");
  }
  return open;
}

}  // namespace baton::simulator
