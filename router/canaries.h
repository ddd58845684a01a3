// Canaries: small requests of the router's own, each through one pair of workers, so that a pair whose link has died is
// known before a client's request meets it, and a pair on trial (pair_health.h) is freed at no client's risk.
//
//   a pair           | gets a canary
//   -----------------+------------------------------------------------------------------------------------------------
//   on trial         | first of all
//   idle             | in turn, when for interval_ms no client's hand-off of it went well, and no canary of it began
//   any              | at most one at a time, only while no client's request waits, and one per kCanaryPaceMs begins
//
//   a canary | event                                        | outcome
//   ---------+----------------------------------------------+---------------------------------------------------------
//   runs     | both workers give the fingerprint's answer   | kOk: the hand-off went well
//   runs     | the tokens differ from the answer            | kWrongAnswer: the hand-off failed
//   runs     | an error before the KV was committed, which  | kFailed: the hand-off failed
//            | another pair might not give                  |
//   runs     | P is done, and the KV was not committed at D | kFailed: likewise
//            | within kCanaryDeadlineMs                     |
//   runs     | any other error, a refusal, the deadline, or | kUnknown: it says nothing of the pair
//            | the loss of a worker                         |
//
// An error waits echo_wait_ms for the other worker's end, because it may be the echo of a refusal there. The first
// answer of a fingerprint counts as the right one: greedy outputs do not depend on what runs beside them. Its prompt is
// shorter than a KV block, and so never comes out of a prefix cache: each canary really moves KV.
//
// A canary is no job: it has no client, tenant, place in line, retry or record. Its calls are on the ledger, since
// workers hold blocks for it.
#ifndef BATON_ROUTER_CANARIES_H_
#define BATON_ROUTER_CANARIES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/random.h"
#include "common/worker_update.h"
#include "router/call_ledger.h"
#include "router/cluster_health.h"
#include "router/dispatch_actions.h"
#include "router/job.h"
#include "router/placement.h"
#include "router/worker_registry.h"

namespace baton::router {

inline constexpr int64_t kCanaryPaceMs = 100;
inline constexpr int64_t kCanaryDeadlineMs = 10'000;
inline constexpr int32_t kCanaryPromptTokens = 8;
// The first one is the prompt's, and the outputs behind the second one are a sample of the decode worker's speed.
inline constexpr int32_t kCanaryOutputs = 2 + kTimedOutputs;

enum class CanaryOutcome : uint8_t { kOk, kFailed, kWrongAnswer, kUnknown };
inline constexpr std::array<CanaryOutcome, 4> kCanaryOutcomes = {CanaryOutcome::kOk, CanaryOutcome::kFailed,
                                                                 CanaryOutcome::kWrongAnswer, CanaryOutcome::kUnknown};
// "ok", "failed", "wrong_answer" or "unknown".
const char* OutcomeName(CanaryOutcome outcome);
using CanaryCounts = std::array<int64_t, kCanaryOutcomes.size()>;

struct CanaryOptions {
  // 0: no canaries.
  int64_t interval_ms = 0;
  int64_t echo_wait_ms = 0;
};

// Parts of the dispatcher, all of which outlive the canaries.
struct CanaryParts {
  const Clock& clock;
  RandomSource& random;
  const WorkerRegistry& registry;
  CallLedger& ledger;
  ClusterHealth& health;
  std::vector<DispatchAction>& actions;
};

// Used by one thread.
class Canaries {
 public:
  Canaries(const CanaryOptions& options, const CanaryParts& parts) : options_(options), parts_(parts) {}

  // Begins a canary if one is due and `may_start`: there is room for its calls, and no client's request waits.
  void OnTimer(bool may_start);
  // kNever without canaries.
  TimeNs NextTimer() const;
  // These two are false when the call, which the ledger has or had, is no canary's.
  bool OnWorkerUpdate(Side side, const JobKey& key, Call& call, const WorkerUpdate& update);
  bool OnWorkerEnd(Side side, const JobKey& key, const Call& call, const absl::Status& status);
  // The ledger has closed the worker's calls.
  void OnWorkerLost(const WorkerId& worker);
  // A hand-off of the pair has gone well.
  void OnHandedOver(const Pair& pair) {
    if (options_.interval_ms != 0) NoteTested(pair);
  }

  // By outcome, since the start.
  const CanaryCounts& counts() const { return counts_; }

 private:
  struct Canary {
    Pair pair;
    TimeNs placed = 0;
    // Outputs of D; P's only one is the first of them.
    std::vector<int32_t> outputs;
    std::optional<int32_t> prefill_output;
    bool committed = false;
    bool decoded = false;
    int64_t computed_tokens = kCanaryPromptTokens;
    TimeNs timed_from = 0;
    // How one of its calls ended: the end that tells the most.
    absl::Status error;
    bool refused = false;
    // When it ends, whatever its workers say.
    TimeNs until = 0;
  };
  using Running = std::map<JobKey, Canary>;

  std::optional<Pair> NextPair();
  bool IsUsable(const Pair& pair) const;
  bool IsIdle(const Pair& pair) const;
  void NoteTested(const Pair& pair);
  bool HasCanary(const Pair& pair) const;
  void Start(const Pair& pair);
  void OnToken(Canary& canary, Side side, const OutputToken& token);
  void EndIfDone(Running::iterator it);
  CanaryOutcome Judge(const Canary& canary);
  // Compares with the answer of the fingerprint, and remembers it if it is the first one.
  bool IsRightAnswer(const Canary& canary);
  void End(Running::iterator it);
  bool IsLive(Side side, const JobKey& key);
  void Cancel(Side side, const JobKey& key);

  const CanaryOptions options_;
  const CanaryParts parts_;
  Running running_;
  TimeNs next_start_ = 0;
  // Where the round of idle pairs stands.
  Pair last_idle_;
  // When a hand-off of the pair last went well, or a canary of it last began. Pairs of members alone, at most
  // kMaxCanaryPairs.
  std::map<Pair, TimeNs> tested_;
  // By fingerprint, at most kMaxWorkers.
  std::map<std::string, std::vector<int32_t>> answers_;
  CanaryCounts counts_ = {};
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CANARIES_H_
