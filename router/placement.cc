#include "router/placement.h"

#include <algorithm>
#include <utility>

#include "router/fingerprints.h"

namespace baton::router {
namespace {

PlacementVerdict Worse(PlacementVerdict a, PlacementVerdict b) { return std::max(a, b); }
PlacementVerdict Better(PlacementVerdict a, PlacementVerdict b) { return std::min(a, b); }

using Group = WorkerRegistry::Group;

// The prefill worker's pending prompt tokens, then the decode worker's reserved blocks. Smaller is better.
using GroupCost = std::pair<int64_t, int64_t>;
// That of the workers which have the prompt already.
constexpr GroupCost kLeastCost = {-1, -1};

struct GroupResult {
  PlacementResult result;
  GroupCost cost;
};

struct Choice {
  PlacementVerdict verdict = PlacementVerdict::kNoWorkers;
  // Set when placed.
  const Worker* worker = nullptr;
  // Whether a dedicated prefill worker can hold the prompt, now or later, so that the choice is among such workers.
  bool is_dedicated = false;
};

template <typename T>
bool Holds(const std::vector<T>& ordered, const T& one) {
  return std::binary_search(ordered.begin(), ordered.end(), one);
}

class Placer {
 public:
  Placer(const std::map<WorkerId, WorkerAssignment>& assigned, const JobNeeds& needs, const PlacementOptions& options,
         const std::vector<WorkerId>& avoid, const Shunned& hidden)
      : assigned_(assigned), needs_(needs), options_(options), avoid_(avoid), hidden_(hidden) {}

  WorkerId PlaceMoveIn(const Group& group) const;
  GroupResult PlaceIn(const Group& group) const {
    return needs_.kind == AttemptKind::kSolo ? PlaceSolo(group) : PlacePair(group);
  }

 private:
  GroupResult PlaceSolo(const Group& group) const;
  GroupResult PlacePair(const Group& group) const;

  const WorkerAssignment& AssignmentOf(const Worker& worker) const {
    return router::AssignmentOf(assigned_, worker.info.id);
  }
  bool Avoided(const Worker& worker) const;
  // Hidden workers and pairs do not exist in this round.
  bool Hidden(const Worker& worker) const {
    return Holds(hidden_.ramping, worker.info.id) || Holds(hidden_.ejected, worker.info.id);
  }
  bool Hidden(const Worker& prefill, const Worker& decode) const {
    return Holds(hidden_.pairs, Pair{.prefill = prefill.info.id, .decode = decode.info.id});
  }
  // The job has outputs with which the worker cannot go on, or asks for what it does not know.
  bool Misreads(const Worker& worker) const {
    return (!needs_.fingerprint.empty() && !worker.info.resumes_jobs) ||
           !Covers(worker.info.job_features, needs_.features);
  }
  int64_t PendingTokens(const Worker& worker) const;
  int64_t ReservedBlocks(const Worker& worker) const;
  // Sequences of other routers count too, as far as the last heartbeat shows them.
  int64_t Sequences(const Worker& worker) const;
  bool HasBlocks(const Worker& worker, int64_t blocks) const;
  PlacementVerdict PrefillVerdict(const Worker& worker) const;
  PlacementVerdict DecodeVerdict(const Worker& worker) const;

  template <typename Allowed>
  Choice ChoosePrefill(const Group& group, Allowed allowed) const;
  // For this decode worker; null: for any.
  Choice ChoosePrefillFor(const Group& group, const Worker* decode) const;

  const std::map<WorkerId, WorkerAssignment>& assigned_;
  const JobNeeds& needs_;
  const PlacementOptions& options_;
  const std::vector<WorkerId>& avoid_;
  const Shunned& hidden_;
};

bool Placer::Avoided(const Worker& worker) const {
  return std::find(avoid_.begin(), avoid_.end(), worker.info.id) != avoid_.end();
}

int64_t Placer::PendingTokens(const Worker& worker) const {
  const WorkerAssignment& assigned = AssignmentOf(worker);
  return std::max(assigned.uncomputed_prompt_tokens,
                  worker.load.pending_prompt_tokens + assigned.unheard_prompt_tokens);
}

int64_t Placer::ReservedBlocks(const Worker& worker) const {
  const WorkerAssignment& assigned = AssignmentOf(worker);
  return std::max(assigned.reserved_blocks, worker.load.used_blocks + assigned.unheard_blocks);
}

int64_t Placer::Sequences(const Worker& worker) const {
  const WorkerAssignment& assigned = AssignmentOf(worker);
  return std::max<int64_t>(assigned.jobs, worker.load.running + assigned.unheard_jobs);
}

PlacementVerdict Placer::PrefillVerdict(const Worker& worker) const {
  if (Misreads(worker)) return PlacementVerdict::kNoWorkers;
  const int32_t blocks = worker.info.PromptBlocks(needs_.prompt_tokens);
  if (blocks > worker.info.total_blocks || needs_.prompt_tokens >= worker.info.context_length) {
    return PlacementVerdict::kImpossible;
  }
  const int64_t uncomputed = AssignmentOf(worker).uncomputed_prompt_tokens;
  const int64_t bound = static_cast<int64_t>(options_.max_pending_chunks) * worker.info.chunk_tokens;
  const bool room = needs_.idle != CountsAsIdle::kNone || uncomputed == 0 || uncomputed + needs_.prompt_tokens <= bound;
  return room && !Avoided(worker) ? PlacementVerdict::kPlaced : PlacementVerdict::kBusy;
}

// The headroom is asked of the blocks that are in use, as the worker itself asks: prompts with a common beginning share
// blocks, which assignments do not know.
bool Placer::HasBlocks(const Worker& worker, int64_t blocks) const {
  const int64_t reserved = ReservedBlocks(worker);
  const int64_t used = worker.load.used_blocks + AssignmentOf(worker).unheard_blocks;
  const int64_t total = worker.info.total_blocks;
  return reserved + blocks <= total && (reserved == 0 || used + blocks + worker.info.headroom_blocks <= total);
}

PlacementVerdict Placer::DecodeVerdict(const Worker& worker) const {
  if (Misreads(worker)) return PlacementVerdict::kNoWorkers;
  const int64_t blocks = worker.info.DecodeBlocks(needs_.prompt_tokens);
  if (blocks > worker.info.total_blocks || needs_.prompt_tokens >= worker.info.context_length) {
    return PlacementVerdict::kImpossible;
  }
  const bool room =
      needs_.idle == CountsAsIdle::kAll || (HasBlocks(worker, blocks) && Sequences(worker) < worker.info.max_sequences);
  return room && !Avoided(worker) ? PlacementVerdict::kPlaced : PlacementVerdict::kBusy;
}

template <typename Allowed>
Choice Placer::ChoosePrefill(const Group& group, Allowed allowed) const {
  Choice choice;
  for (const Worker* worker : group) {
    if (Hidden(*worker) || !allowed(*worker)) continue;
    const PlacementVerdict verdict = PrefillVerdict(*worker);
    choice.verdict = Better(choice.verdict, verdict);
    if (verdict != PlacementVerdict::kPlaced) continue;
    if (worker->info.id == needs_.beside.prefill) return {.verdict = verdict, .worker = worker};
    if (choice.worker == nullptr || PendingTokens(*worker) < PendingTokens(*choice.worker)) choice.worker = worker;
  }
  return choice;
}

Choice Placer::ChoosePrefillFor(const Group& group, const Worker* decode) const {
  const auto choose = [&](WorkerRole role) {
    return ChoosePrefill(group, [&](const Worker& worker) {
      return worker.info.role == role && (decode == nullptr || !Hidden(worker, *decode));
    });
  };
  Choice dedicated = choose(WorkerRole::kPrefill);
  dedicated.is_dedicated = dedicated.verdict <= PlacementVerdict::kBusy;
  if (dedicated.is_dedicated) return dedicated;
  const Choice mixed = choose(WorkerRole::kMixed);
  // Without mixed workers the verdict is that of the dedicated ones, all of which are too small.
  return mixed.verdict == PlacementVerdict::kNoWorkers ? dedicated : mixed;
}

GroupResult Placer::PlaceSolo(const Group& group) const {
  const Choice prefill = ChoosePrefill(group, [](const Worker& worker) { return worker.can_prefill(); });
  GroupResult placed{.result = {.verdict = prefill.verdict, .pair = {}}, .cost = {}};
  if (prefill.worker == nullptr) return placed;
  placed.result.pair.prefill = prefill.worker->info.id;
  placed.cost = {PendingTokens(*prefill.worker), 0};
  return placed;
}

GroupResult Placer::PlacePair(const Group& group) const {
  GroupResult best;
  const Choice common = ChoosePrefillFor(group, nullptr);
  for (const Worker* worker : group) {
    if (!worker->can_decode() || Hidden(*worker)) continue;
    const Choice prefill = hidden_.pairs.empty() ? common : ChoosePrefillFor(group, worker);
    const bool is_mixed = worker->info.role == WorkerRole::kMixed;
    const bool alone = needs_.kind == AttemptKind::kLocal || (is_mixed && !prefill.is_dedicated);
    const PlacementVerdict verdict = Worse(DecodeVerdict(*worker), alone ? PrefillVerdict(*worker) : prefill.verdict);
    if (verdict == PlacementVerdict::kPlaced) {
      const Worker& prefiller = alone ? *worker : *prefill.worker;
      const Pair pair = {.prefill = prefiller.info.id, .decode = worker->info.id};
      if (pair.decode == needs_.beside.decode)
        return {.result = {.verdict = verdict, .pair = pair}, .cost = kLeastCost};
      const int64_t blocks = ReservedBlocks(*worker);
      if (best.result.verdict == PlacementVerdict::kPlaced && blocks >= best.cost.second) continue;
      best.result.pair = pair;
      best.cost = {PendingTokens(prefiller), blocks};
    }
    best.result.verdict = Better(best.result.verdict, verdict);
  }
  return best;
}

// Whether workers of the fingerprint may get the job.
bool Suits(const JobNeeds& needs, std::string_view fingerprint) {
  if (needs.fingerprint.empty() || needs.fingerprint == fingerprint) return true;
  return needs.other_numerics && HaveSameWeights(needs.fingerprint, fingerprint);
}

PlacementResult BestOfGroups(const WorkerRegistry& registry, const Placer& placer, const JobNeeds& needs) {
  GroupResult best;
  for (const auto& [name, group] : registry.serving_groups()) {
    if (!Suits(needs, name)) continue;
    const GroupResult placed = placer.PlaceIn(group);
    const bool equal = placed.result.verdict == best.result.verdict;
    if (placed.result.verdict < best.result.verdict || (equal && placed.cost < best.cost)) best = placed;
  }
  return best.result;
}

WorkerId Placer::PlaceMoveIn(const Group& group) const {
  const Worker* best = nullptr;
  for (const Worker* worker : group) {
    if (!worker->can_decode() || DecodeVerdict(*worker) != PlacementVerdict::kPlaced) continue;
    if (best == nullptr || ReservedBlocks(*worker) < ReservedBlocks(*best)) best = worker;
  }
  return best == nullptr ? WorkerId() : best->info.id;
}

}  // namespace

const WorkerAssignment& AssignmentOf(const std::map<WorkerId, WorkerAssignment>& assigned, const WorkerId& worker) {
  static constexpr WorkerAssignment kNothing;
  const auto it = assigned.find(worker);
  return it == assigned.end() ? kNothing : it->second;
}

WorkerId PlaceMove(const WorkerRegistry& registry, const std::map<WorkerId, WorkerAssignment>& assigned,
                   const JobNeeds& needs) {
  const auto group = registry.serving_groups().find(std::string(needs.fingerprint));
  if (group == registry.serving_groups().end()) return {};
  return Placer(assigned, needs, {}, {}, {}).PlaceMoveIn(group->second);
}

PlacementResult Place(const WorkerRegistry& registry, const std::map<WorkerId, WorkerAssignment>& assigned,
                      const JobNeeds& needs, const PlacementOptions& options, const std::vector<WorkerId>& avoid,
                      const Shunned& shunned) {
  const auto place = [&](const Shunned& hidden) {
    return BestOfGroups(registry, Placer(assigned, needs, options, avoid, hidden), needs);
  };
  if (!shunned.ramping.empty()) {
    const PlacementResult placed = place(shunned);
    if (placed.verdict == PlacementVerdict::kPlaced) return placed;
  }
  if (!shunned.ejected.empty() || !shunned.pairs.empty()) {
    const PlacementResult placed = place({.ramping = {}, .ejected = shunned.ejected, .pairs = shunned.pairs});
    if (placed.verdict <= PlacementVerdict::kBusy) return placed;
  }
  return place({});
}

}  // namespace baton::router
