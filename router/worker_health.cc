#include "router/worker_health.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

namespace baton::router {
namespace {

// The weight of a new sample in a moving average.
constexpr double kNewWeight = 0.25;

}  // namespace

void WorkerHealth::OnWorkerJoined(const WorkerId& worker) {
  workers_[worker] = {.joined = clock_.Now()};
  last_ramp_end_ = std::max(last_ramp_end_, After(clock_.Now(), kRampUpMs));
}

// Each step has costs of its own, which many tokens share: a token of a short prompt costs more, and so does an output
// of a large batch.
size_t WorkerHealth::SizeClass(const WorkSample& sample) {
  const bool prefill = sample.phase == WorkSample::Phase::kPrefill;
  const auto size = static_cast<uint64_t>(std::max<int64_t>(0, prefill ? sample.units : sample.batch_sequences));
  const size_t width = std::min<size_t>(std::bit_width(size), kSizeClasses - 1);
  return prefill ? kSizeClasses - 1 - width : width;
}

bool WorkerHealth::IsPeer(const Worker& worker, const Worker& other) const {
  return other.info.id != worker.info.id && other.info.role == worker.info.role &&
         other.info.fingerprint == worker.info.fingerprint && other.load.state == WorkerState::kServing;
}

std::vector<const WorkerHealth::State*> WorkerHealth::PeersOf(const Worker& worker) const {
  std::vector<const State*> peers;
  auto it = workers_.upper_bound(worker.info.id);
  const size_t visits = std::min(workers_.size(), kMaxVisits);
  for (size_t i = 0; i < visits && peers.size() < kMaxPeers; ++i, ++it) {
    if (it == workers_.end()) it = workers_.begin();
    const Worker* other = registry_.Find(it->first);
    if (other != nullptr && IsPeer(worker, *other) && clock_.Now() >= it->second.ejected_until) {
      peers.push_back(&it->second);
    }
  }
  return peers;
}

std::optional<WorkerHealth::Reference> WorkerHealth::ReferenceFor(const Worker& worker, WorkSample::Phase phase,
                                                                  size_t size_class) const {
  const TimeNs fresh_since = clock_.Now() - kFreshMs * kNsPerMs;
  const std::vector<const State*> others = PeersOf(worker);
  std::vector<double> peers;
  for (size_t other_class = size_class; other_class < kSizeClasses; ++other_class) {
    for (const State* state : others) {
      const Rate& rate = state->rates[static_cast<size_t>(phase)][other_class];
      if (rate.samples >= kMinPeerSamples && rate.last >= fresh_since) peers.push_back(rate.unit_ns);
    }
    if (peers.empty()) continue;
    // The upper one of two: a worker that is slow is slower than both.
    const auto median = peers.begin() + static_cast<ptrdiff_t>(peers.size() / 2);
    std::nth_element(peers.begin(), median, peers.end());
    return Reference{.unit_ns = *median, .peers = peers.size(), .same_class = other_class == size_class};
  }
  return std::nullopt;
}

HealthChange WorkerHealth::OnSample(const WorkerId& worker, const WorkSample& sample) {
  const auto it = workers_.find(worker);
  const Worker* known = registry_.Find(worker);
  if (it == workers_.end() || known == nullptr || sample.units <= 0 || sample.duration_ns < 0)
    return HealthChange::kNone;
  State& state = it->second;
  const TimeNs now = clock_.Now();
  const size_t size_class = SizeClass(sample);
  const double unit_ns = static_cast<double>(sample.duration_ns) / static_cast<double>(sample.units);
  Rate& rate = state.rates[static_cast<size_t>(sample.phase)][size_class];
  if (rate.samples > 0 && now < After(rate.last, kSampleIntervalMs)) return HealthChange::kNone;
  rate.unit_ns = rate.samples == 0 ? unit_ns : rate.unit_ns + kNewWeight * (unit_ns - rate.unit_ns);
  rate.samples = std::min(rate.samples + 1, kMinPeerSamples);
  rate.last = now;
  // A worker that has just begun is slow for reasons of its own.
  if (Ramps(state)) return HealthChange::kNone;
  const std::optional<Reference> reference = ReferenceFor(*known, sample.phase, size_class);
  if (!reference || reference->unit_ns <= 0) return HealthChange::kNone;
  const double slowness = unit_ns / reference->unit_ns;
  if (now < state.ejected_until) {
    return JudgeEjected(state, slowness < (reference->same_class ? kFastFactor : kFastFactorAcross));
  }
  return JudgeFull(*known, state, slowness > (reference->peers == 1 ? kGrayFactorOfTwo : kGrayFactor),
                   now - sample.duration_ns);
}

HealthChange WorkerHealth::JudgeFull(const Worker& worker, State& state, bool is_slow, TimeNs began) {
  if (!is_slow) {
    state.slow_samples = 0;
    return HealthChange::kNone;
  }
  if (began < state.slow_until) return HealthChange::kNone;
  state.slow_until = clock_.Now();
  state.slow_samples = std::min(state.slow_samples + 1, kSlowSamples);
  if (state.slow_samples < kSlowSamples || !MayEject(worker)) return HealthChange::kNone;
  state.next_trial = After(clock_.Now(), kTrialIntervalMs);
  Eject(state);
  return HealthChange::kEjected;
}

HealthChange WorkerHealth::JudgeEjected(State& state, bool is_fast) {
  if (!is_fast) {
    Eject(state);
    return HealthChange::kNone;
  }
  if (++state.fast_samples < kFastSamples) return HealthChange::kNone;
  state.ejected_until = clock_.Now();
  return HealthChange::kReturned;
}

void WorkerHealth::Eject(State& state) {
  state.slow_samples = 0;
  state.fast_samples = 0;
  state.ejected_until = After(clock_.Now(), kMaxEjectedMs);
  last_ejection_end_ = state.ejected_until;
  last_ramp_end_ = After(state.ejected_until, kRampUpMs);
}

bool WorkerHealth::MayEject(const Worker& worker) const {
  size_t workers = 1;
  size_t ejected = 0;
  for (const auto& [id, state] : workers_) {
    const Worker* other = registry_.Find(id);
    if (other == nullptr || !IsPeer(worker, *other)) continue;
    ++workers;
    if (clock_.Now() < state.ejected_until) ++ejected;
  }
  if (workers < 2) return false;
  return ejected < std::max<size_t>(1, workers / 3);
}

void WorkerHealth::OnPlaced(const WorkerId& worker) {
  if (clock_.Now() >= last_ejection_end_) return;
  const auto it = workers_.find(worker);
  if (it != workers_.end()) it->second.next_trial = After(clock_.Now(), kTrialIntervalMs);
}

bool WorkerHealth::IsEjected(const WorkerId& worker) const {
  const auto it = workers_.find(worker);
  return it != workers_.end() && clock_.Now() < it->second.ejected_until;
}

std::vector<WorkerId> WorkerHealth::Ejected(const std::map<WorkerId, WorkerAssignment>& assigned) const {
  std::vector<WorkerId> ejected;
  const TimeNs now = clock_.Now();
  if (now >= last_ejection_end_) return ejected;
  for (const auto& [id, state] : workers_) {
    if (now >= state.ejected_until) continue;
    const bool on_trial = now >= state.next_trial && AssignmentOf(assigned, id).jobs == 0;
    if (!on_trial) ejected.push_back(id);
  }
  return ejected;
}

bool WorkerHealth::Ramps(const State& state) const {
  const TimeNs begun = std::max(state.joined, state.ejected_until);
  return begun <= clock_.Now() && clock_.Now() < After(begun, kRampUpMs);
}

bool WorkerHealth::HasFullPeer(const Worker& worker) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const Worker* other = registry_.Find(entry.first);
    return other != nullptr && IsPeer(worker, *other) && !Ramps(entry.second) &&
           clock_.Now() >= entry.second.ejected_until;
  });
}

std::vector<WorkerId> WorkerHealth::Ramping(const std::map<WorkerId, WorkerAssignment>& assigned) const {
  std::vector<WorkerId> ramping;
  const TimeNs now = clock_.Now();
  if (now >= last_ramp_end_) return ramping;
  std::vector<const Worker*> new_ones;
  for (const auto& [id, state] : workers_) {
    const Worker* worker = Ramps(state) ? registry_.Find(id) : nullptr;
    if (worker != nullptr) new_ones.push_back(worker);
  }
  // A cluster that has just begun has nobody else.
  if (new_ones.size() == workers_.size()) return ramping;
  // The answer is the same for all workers of a role and fingerprint.
  std::map<std::pair<WorkerRole, std::string_view>, bool> has_full_peer;
  for (const Worker* worker : new_ones) {
    const State& state = workers_.at(worker->info.id);
    const int64_t ramped_ms = (now - std::max(state.joined, state.ejected_until)) / kNsPerMs;
    const int64_t share = 1 + (worker->info.max_sequences - 1) * ramped_ms / kRampUpMs;
    if (AssignmentOf(assigned, worker->info.id).jobs < share) continue;
    const std::pair<WorkerRole, std::string_view> group(worker->info.role, worker->info.fingerprint);
    const auto [it, is_new] = has_full_peer.try_emplace(group, false);
    if (is_new) it->second = HasFullPeer(*worker);
    if (it->second) ramping.push_back(worker->info.id);
  }
  return ramping;
}

}  // namespace baton::router
