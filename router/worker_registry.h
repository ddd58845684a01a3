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

namespace baton::router {

// A worker is its incarnation: a restarted process is another worker.
using WorkerId = Incarnation;

enum class WorkerRole : uint8_t { kPrefill, kDecode, kMixed };
enum class WorkerState : uint8_t { kServing, kDraining };

struct WorkerInfo {
  WorkerId id;
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

  // A new worker counts as idle until its first heartbeat. ALREADY_EXISTS for a known incarnation, RESOURCE_EXHAUSTED
  // beyond kMaxWorkers, INVALID_ARGUMENT for nonsense (no target, no fingerprint, a capacity of zero, a zero
  // incarnation).
  absl::Status Join(const WorkerInfo& info, TimeNs now);
  // False for an unknown worker.
  bool Heartbeat(const WorkerId& id, const WorkerLoad& load, TimeNs now);
  bool Leave(const WorkerId& id);
  // The workers last heard at `before` or earlier.
  std::vector<WorkerId> Silent(TimeNs before) const;

  const Worker* Find(const WorkerId& id) const;
  // In order of id, so that equal loads are resolved the same way everywhere.
  const std::map<WorkerId, Worker>& workers() const { return workers_; }
  // The workers that take new jobs, by fingerprint: KV moves only within one of these. Valid until the next change.
  const std::map<std::string, Group>& serving_groups() const { return serving_groups_; }

 private:
  void Regroup();

  std::map<WorkerId, Worker> workers_;
  std::map<std::string, Group> serving_groups_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_WORKER_REGISTRY_H_
