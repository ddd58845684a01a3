// The workers that the router knows: who they are, what they can hold, what they last said about their load.
// No I/O. Used by one thread, the router's loop.
#ifndef BATON_ROUTER_WORKER_REGISTRY_H_
#define BATON_ROUTER_WORKER_REGISTRY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/kv_layout.h"
#include "router/job_features.h"
#include "router/refused_workers.h"

namespace baton::router {

// A worker is its membership: a process that joins again is another worker.
using WorkerId = MembershipId;

enum class WorkerRole : uint8_t { kPrefill, kDecode, kMixed };
enum class WorkerState : uint8_t { kServing, kDraining };

// "prefill", "decode" or "mixed".
const char* RoleName(WorkerRole role);

struct WorkerInfo {
  WorkerId id;
  // The process behind the membership.
  Incarnation incarnation;
  // The membership that this process had before; zero: none.
  WorkerId resumes;
  WorkerRole role = WorkerRole::kMixed;
  // host:port of its gRPC server.
  std::string target;
  std::string model;
  std::string fingerprint;
  int32_t total_blocks = 0;
  int32_t max_sequences = 0;
  int32_t chunk_tokens = 0;
  int32_t context_length = 0;
  int64_t pid = 0;
  KvGroups groups = {};
  // host:port of its admin port; empty: it has none.
  std::string admin = {};
  // KV blocks that must stay free beyond those of a job that comes to decode, unless the worker holds no other job.
  int32_t headroom_blocks = 0;
  // It goes on with a job that has outputs of other workers. One of a former version begins from the prompt alone.
  bool resumes_jobs = true;
  // What it knows of jobs. One of a former version would sample as if there were no logit_bias or no grammar.
  JobFeatures job_features = kAllJobFeatures;
  // It hands running jobs over while it drains.
  bool hands_over = true;
  // It drains when it is ordered to, and its jobs have this time to end then.
  bool takes_drain_orders = true;
  int64_t drain_timeout_ms = 0;

  // The most blocks that a prompt takes at this worker, without and with its first outputs.
  int32_t PromptBlocks(int64_t tokens) const { return groups.MostBlocks(tokens, chunk_tokens); }
  int32_t DecodeBlocks(int64_t tokens) const { return PromptBlocks(tokens + kBlockTokens); }
};

// The last heartbeat.
struct WorkerLoad {
  WorkerState state = WorkerState::kServing;
  int32_t free_blocks = 0;
  int32_t used_blocks = 0;
  int32_t cached_blocks = 0;
  int32_t running = 0;
  int64_t pending_prompt_tokens = 0;
  // Steps that the engine has completed, and the age of the step under way; 0 when there is none.
  int64_t steps = 0;
  int64_t step_age_ms = 0;
};

struct Worker {
  WorkerInfo info;
  WorkerLoad load;
  TimeNs last_heard = 0;

  bool can_prefill() const { return info.role != WorkerRole::kDecode; }
  bool can_decode() const { return info.role != WorkerRole::kPrefill; }
};

class WorkerRegistry {
 public:
  // In order of id.
  using Group = std::vector<const Worker*>;

  // Whether the worker may join. ALREADY_EXISTS when a member has its incarnation, unless the worker resumes that very
  // membership; RESOURCE_EXHAUSTED beyond kMaxWorkers; INVALID_ARGUMENT for nonsense (no target, no fingerprint, a text
  // beyond kMaxWorkerTextBytes, a capacity of zero, a zero id or incarnation).
  absl::Status CheckJoin(const WorkerInfo& info) const;
  // Fails as CheckJoin does. A member that the worker resumes has to leave first. A new worker counts as idle until its
  // first heartbeat.
  absl::Status Join(const WorkerInfo& info, TimeNs now);
  // False for an unknown worker.
  bool Heartbeat(const WorkerId& id, const WorkerLoad& load, TimeNs now);
  bool Leave(const WorkerId& id);
  // The workers last heard at `before` or earlier.
  std::vector<WorkerId> Silent(TimeNs before) const;

  const Worker* Find(const WorkerId& id) const;
  // The member that this process has; null when it has none.
  const Worker* FindProcess(const Incarnation& incarnation) const;
  // In order of id, so that equal loads are resolved the same way everywhere.
  const std::map<WorkerId, Worker>& workers() const { return workers_; }
  // The workers that take new jobs, by fingerprint: KV moves only within one of these. Valid until the next change.
  const std::map<std::string, Group>& serving_groups() const { return serving_groups_; }
  // Whether the workers of some group compute prompts and outputs, so that a request would be served.
  bool CanServe() const;
  // A name for people of a fingerprint that a member has: A, B, ..., Z, AA. It is this fingerprint's until its last
  // member leaves.
  std::string GroupName(const std::string& fingerprint) const;

  // Workers that asked to join and are no members.
  RefusedWorkers& refused() { return refused_; }
  const RefusedWorkers& refused() const { return refused_; }

 private:
  void Regroup();

  std::map<WorkerId, Worker> workers_;
  std::map<std::string, Group> serving_groups_;
  // The fingerprints of all members, numbered from 0.
  std::map<std::string, int> group_numbers_;
  RefusedWorkers refused_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WORKER_REGISTRY_H_
