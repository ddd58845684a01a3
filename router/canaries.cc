#include "router/canaries.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::router {
namespace {

std::shared_ptr<const JobSpec> MakeSpec(const JobId& id, TimeNs deadline) {
  auto spec = std::make_shared<JobSpec>();
  spec->id = id;
  // Ids that every vocabulary has.
  for (int32_t n = 0; n < kCanaryPromptTokens; ++n) spec->prompt.push_back(10 + n);
  spec->sampling.max_tokens = kCanaryOutputs;
  spec->sampling.ignore_eos = true;
  spec->priority = kMinPriority;
  spec->deadline = deadline;
  return spec;
}

// Whether the error says of the hand-off, and not of the canary, that it failed.
bool BlamesHandOff(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDataLoss(status) || absl::IsNotFound(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

const char* OutcomeName(CanaryOutcome outcome) {
  switch (outcome) {
    case CanaryOutcome::kOk:
      return "ok";
    case CanaryOutcome::kFailed:
      return "failed";
    case CanaryOutcome::kWrongAnswer:
      return "wrong_answer";
    case CanaryOutcome::kUnknown:
      break;
  }
  return "unknown";
}

void Canaries::OnTimer(bool may_start) {
  if (options_.interval_ms == 0) return;
  const TimeNs now = parts_.clock.Now();
  for (auto it = running_.begin(); it != running_.end();) {
    const auto due = it++;
    if (due->second.until <= now) End(due);
  }
  if (now < next_start_) return;
  next_start_ = After(now, kCanaryPaceMs);
  if (!may_start || running_.size() >= kMaxCanaries) return;
  if (const std::optional<Pair> pair = NextPair()) Start(*pair);
}

TimeNs Canaries::NextTimer() const {
  if (options_.interval_ms == 0 || parts_.registry.workers().empty()) return kNever;
  TimeNs next = next_start_;
  for (const auto& [key, canary] : running_) next = std::min(next, canary.until);
  return next;
}

std::optional<Pair> Canaries::NextPair() {
  for (const Pair& pair : parts_.health.PairsOnTrial()) {
    if (IsUsable(pair) && !HasCanary(pair)) return pair;
  }
  // The first idle pair behind the last one, or else the first of all. A step of the round looks at a bounded part.
  size_t looked_at = 0;
  Pair last_looked_at;
  for (const auto& [fingerprint, group] : parts_.registry.serving_groups()) {
    for (const Worker* prefill : group) {
      if (!prefill->can_prefill()) continue;
      for (const Worker* decode : group) {
        const Pair pair = {.prefill = prefill->info.id, .decode = decode->info.id};
        if (!(last_idle_ < pair) || !IsUsable(pair)) continue;
        if (IsIdle(pair)) {
          last_idle_ = pair;
          return pair;
        }
        last_looked_at = pair;
        if (++looked_at < kMaxCanaryPairs) continue;
        last_idle_ = last_looked_at;
        return std::nullopt;
      }
    }
  }
  last_idle_ = {};
  return std::nullopt;
}

// Hand-offs go between these: a mixed worker computes the prompts of its own requests, unless others do that.
bool Canaries::IsUsable(const Pair& pair) const {
  const Worker* prefill = parts_.registry.Find(pair.prefill);
  const Worker* decode = parts_.registry.Find(pair.decode);
  if (prefill == nullptr || decode == nullptr || prefill == decode) return false;
  if (!prefill->can_prefill() || !decode->can_decode()) return false;
  const bool serve = prefill->load.state == WorkerState::kServing && decode->load.state == WorkerState::kServing;
  return serve && (prefill->info.role == WorkerRole::kPrefill || decode->info.role == WorkerRole::kDecode);
}

bool Canaries::IsIdle(const Pair& pair) const {
  if (HasCanary(pair) || parts_.health.IsBad(pair)) return false;
  const auto it = tested_.find(pair);
  return it == tested_.end() || After(it->second, options_.interval_ms) <= parts_.clock.Now();
}

bool Canaries::HasCanary(const Pair& pair) const {
  return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) { return entry.second.pair == pair; });
}

void Canaries::Start(const Pair& pair) {
  const TimeNs now = parts_.clock.Now();
  const Worker& prefill = *parts_.registry.Find(pair.prefill);
  const Worker& decode = *parts_.registry.Find(pair.decode);
  const TimeNs until = After(now, kCanaryDeadlineMs);
  const auto spec = MakeSpec(parts_.random.NextId(), until);
  const JobKey key = {.job = spec->id, .attempt = 1, .choice = 0};
  const Id128 secret = parts_.random.NextId();
  running_.emplace(
      key, Canary{.pair = pair, .placed = now, .outputs = {}, .prefill_output = {}, .error = {}, .until = until});
  NoteTested(pair);
  parts_.health.OnPlaced(pair);
  parts_.ledger.Open({Side::kPrefill, key}, {.worker = pair.prefill, .prompt_tokens = kCanaryPromptTokens});
  parts_.ledger.Open({Side::kDecode, key},
                     {.worker = pair.decode, .blocks = decode.info.PromptBlocks(kCanaryPromptTokens)});
  parts_.actions.push_back(StartPrefill{.worker = pair.prefill,
                                        .incarnation = prefill.info.incarnation,
                                        .target = prefill.info.target,
                                        .key = key,
                                        .secret = secret,
                                        .job = spec,
                                        .reader = pair.decode});
  parts_.actions.push_back(StartDecode{.worker = pair.decode,
                                       .incarnation = decode.info.incarnation,
                                       .target = decode.info.target,
                                       .key = key,
                                       .secret = secret,
                                       .job = spec,
                                       .prefill_incarnation = prefill.info.incarnation,
                                       .prefill_target = prefill.info.target,
                                       .source = pair.prefill});
}

bool Canaries::OnWorkerUpdate(Side side, const JobKey& key, Call& call, const WorkerUpdate& update) {
  const auto it = running_.find(key);
  if (it == running_.end()) return false;
  Canary& canary = it->second;
  switch (update.kind) {
    case WorkerUpdate::Kind::kStarted:
      call.started = true;
      if (side == Side::kPrefill) canary.computed_tokens = kCanaryPromptTokens - update.cached_tokens;
      break;
    case WorkerUpdate::Kind::kKvCommitted:
      if (side == Side::kDecode) canary.committed = true;
      break;
    case WorkerUpdate::Kind::kToken:
      if (side == Side::kPrefill && call.prompt_tokens > 0) parts_.ledger.OnComputed(call, call.prompt_tokens);
      OnToken(canary, side, update.token);
      break;
    case WorkerUpdate::Kind::kFrozen:
    case WorkerUpdate::Kind::kPrompt:
      break;
    case WorkerUpdate::Kind::kFinished:
      call.finished = true;
      if (side == Side::kDecode) canary.decoded = true;
      if (side == Side::kPrefill) {
        parts_.health.OnSample(canary.pair.prefill, {.phase = WorkSample::Phase::kPrefill,
                                                     .duration_ns = update.report.compute_ns,
                                                     .units = canary.computed_tokens});
      }
      EndIfDone(it);
      break;
  }
  return true;
}

void Canaries::OnToken(Canary& canary, Side side, const OutputToken& token) {
  if (side == Side::kPrefill) {
    canary.prefill_output = token.token;
    return;
  }
  canary.committed = true;
  // What comes beyond makes the answer a wrong one.
  if (canary.outputs.size() <= kCanaryOutputs) canary.outputs.push_back(token.token);
  const TimeNs now = parts_.clock.Now();
  if (token.index == 1) canary.timed_from = now;
  if (token.index == 1 + kTimedOutputs) {
    parts_.health.OnSample(canary.pair.decode,
                           {.phase = WorkSample::Phase::kDecode,
                            .duration_ns = now - canary.timed_from,
                            .units = kTimedOutputs,
                            .batch_sequences = AssignmentOf(parts_.ledger.assigned(), canary.pair.decode).jobs});
  }
}

bool Canaries::OnWorkerEnd(Side side, const JobKey& key, const Call& call, const absl::Status& status) {
  const auto it = running_.find(key);
  if (it == running_.end()) return false;
  if (call.finished) {
    EndIfDone(it);
    return true;
  }
  Canary& canary = it->second;
  if (call.IsRefusal(status)) canary.refused = true;
  const char* who = side == Side::kPrefill ? "prefill worker: " : "decode worker: ";
  const absl::Status what = status.ok() ? absl::InternalError(absl::StrCat(who, "it ended its call too early"))
                                        : absl::Status(status.code(), absl::StrCat(who, status.message()));
  if (canary.error.ok() || absl::IsCancelled(canary.error)) canary.error = what;
  canary.until = std::min(canary.until, After(parts_.clock.Now(), options_.echo_wait_ms));
  EndIfDone(it);
  return true;
}

void Canaries::OnWorkerLost(const WorkerId& worker) {
  std::erase_if(tested_,
                [&](const auto& entry) { return entry.first.prefill == worker || entry.first.decode == worker; });
  for (auto it = running_.begin(); it != running_.end();) {
    const auto lost = it++;
    if (lost->second.pair.prefill != worker && lost->second.pair.decode != worker) continue;
    lost->second.refused = true;
    End(lost);
  }
}

void Canaries::NoteTested(const Pair& pair) {
  // Forgotten pairs get a canary too early, which does no harm.
  if (tested_.size() >= kMaxCanaryPairs && !tested_.contains(pair)) tested_.erase(tested_.begin());
  tested_[pair] = parts_.clock.Now();
}

void Canaries::EndIfDone(Running::iterator it) {
  if (!IsLive(Side::kPrefill, it->first) && !IsLive(Side::kDecode, it->first)) End(it);
}

CanaryOutcome Canaries::Judge(const Canary& canary) {
  if (canary.refused) return CanaryOutcome::kUnknown;
  if (canary.decoded && canary.committed) {
    return IsRightAnswer(canary) ? CanaryOutcome::kOk : CanaryOutcome::kWrongAnswer;
  }
  if (canary.committed) return CanaryOutcome::kUnknown;
  const bool transfer_hangs = canary.error.ok() && canary.prefill_output.has_value();
  return transfer_hangs || BlamesHandOff(canary.error) ? CanaryOutcome::kFailed : CanaryOutcome::kUnknown;
}

bool Canaries::IsRightAnswer(const Canary& canary) {
  if (canary.outputs.size() != kCanaryOutputs) return false;
  if (canary.prefill_output && *canary.prefill_output != canary.outputs.front()) return false;
  const std::string& fingerprint = parts_.registry.Find(canary.pair.decode)->info.fingerprint;
  if (const auto it = answers_.find(fingerprint); it != answers_.end()) return it->second == canary.outputs;
  std::erase_if(answers_, [&](const auto& entry) { return !parts_.registry.serving_groups().contains(entry.first); });
  answers_.emplace(fingerprint, canary.outputs);
  return true;
}

void Canaries::End(Running::iterator it) {
  const JobKey key = it->first;
  Cancel(Side::kPrefill, key);
  Cancel(Side::kDecode, key);
  const Canary canary = std::move(it->second);
  running_.erase(it);
  const CanaryOutcome outcome = Judge(canary);
  ++counts_[static_cast<size_t>(outcome)];
  if (outcome == CanaryOutcome::kOk) {
    parts_.health.OnHandedOver(canary.pair, canary.placed);
  } else if (outcome == CanaryOutcome::kWrongAnswer) {
    parts_.health.OnWrongAnswer(canary.pair, canary.placed, absl::StrJoin(canary.outputs, " "));
  } else if (outcome == CanaryOutcome::kFailed) {
    parts_.health.OnHandOffFailed(
        canary.pair, canary.placed,
        absl::StrCat("a canary met ", canary.error.ok() ? "a hand-off that does not end" : canary.error.ToString()));
  }
}

bool Canaries::IsLive(Side side, const JobKey& key) {
  const Call* call = parts_.ledger.Find({side, key});
  return call != nullptr && call->live();
}

void Canaries::Cancel(Side side, const JobKey& key) {
  Call* call = parts_.ledger.Find({side, key});
  if (call == nullptr || call->finished || call->cancelled) return;
  call->cancelled = true;
  parts_.actions.push_back(CancelAttempt{.side = side, .worker = call->worker, .key = key});
}

}  // namespace baton::router
