// What a worker computes, holds and pulls, as metrics; docs/metrics.md has the table.
#ifndef BATON_WORKER_WORKER_METRICS_H_
#define BATON_WORKER_WORKER_METRICS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "engine/engine.h"
#include "engine/step_gate.h"
#include "kvtransfer/kv_sink.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "telemetry/metrics.h"
#include "worker/worker_core.h"

namespace baton::worker {

struct WorkerMetricsOptions {
  // "prefill", "decode" or "mixed".
  std::string role;
  // Whether the worker pulls KV.
  bool pulls = false;
  int64_t block_bytes = 0;
};

// Sets of labels of each transfer metric, most of all prefill workers; a further one replaces the set that was unused
// longest.
inline constexpr size_t kMaxTransferSources = 256;
// How often the worker looks for blocks that belong to nobody.
inline constexpr int64_t kOrphanCheckMs = 1'000;

class WorkerMetrics {
 public:
  // `clock` outlives the metrics.
  WorkerMetrics(const WorkerMetricsOptions& options, const Clock& clock);

  // On the engine's loop, before each step and after each round. `load` is the core's; `gate` may be null.
  void OnRound(WorkerCore& core, const WorkerLoad& load, const engine::StepGate* gate);
  // On the transfer thread.
  void OnCommitted(const kvtransfer::Committed& committed);
  void OnFetchFailed(const kvtransfer::FetchFailed& failed);

  // What a scrape reads. Thread-safe; outlives the worker if somebody keeps it.
  std::vector<std::shared_ptr<prometheus::Collectable>> sources() const { return {registry_, current_}; }

 private:
  using CounterFamily = prometheus::Family<prometheus::Counter>;
  enum StepKind : size_t { kPrefillStep, kDecodeStep, kMixedStep, kStepKinds };
  // What the metrics that are read when they are asked for show.
  struct Snapshot {
    WorkerLoad load;
    engine::EngineCounters engine;
    int32_t orphaned_blocks = 0;
    int64_t core_yields = 0;
    int64_t core_grants = 0;
    int64_t core_wait_ns = 0;
  };
  // Shared with `current_`, which may outlive this object.
  struct Board {
    absl::Mutex mutex;
    Snapshot snapshot ABSL_GUARDED_BY(mutex);
  };

  CounterFamily& AddCounters(const char* name, const char* help);
  void AddStepMetrics();
  void AddCurrentMetrics(const WorkerMetricsOptions& options);
  void ObserveStep(const engine::StepTimes& step, const engine::EngineCounters& counters);

  const prometheus::Labels role_;
  const Clock& clock_;
  const std::shared_ptr<prometheus::Registry> registry_;
  const std::shared_ptr<telemetry::CallbackMetrics> current_;
  const std::shared_ptr<Board> board_;
  std::array<prometheus::Counter*, kStepKinds> steps_ = {};
  std::array<prometheus::Histogram*, kStepKinds> step_seconds_ = {};
  prometheus::Histogram* batch_sequences_ = nullptr;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Counter>> transfers_;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Counter>> transfer_bytes_;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Counter>> early_bytes_;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Counter>> read_seconds_;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Counter>> damaged_blocks_;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Counter>> failures_;
  std::unique_ptr<telemetry::BoundedFamily<prometheus::Histogram>> transfer_seconds_;

  // The loop's.
  int64_t seen_step_ = 0;
  engine::EngineCounters seen_;
  TimeNs next_orphan_check_ = 0;
  int32_t orphaned_blocks_ = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_WORKER_METRICS_H_
