// The router's dashboard: what requests and the router's view say becomes events for all who look.
#ifndef BATON_ROUTER_DASHBOARD_H_
#define BATON_ROUTER_DASHBOARD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "router/dashboard_facts.h"
#include "router/dashboard_feed.h"
#include "router/request_record.h"
#include "router/router_view.h"
#include "telemetry/event_stream.h"

namespace baton::router {

// Pairs of workers whose hand-offs the dashboard shows.
inline constexpr size_t kMaxDashboardPairs = 1'024;
// Between two snapshots.
inline constexpr int64_t kSnapshotIntervalMs = 1'000;

// Thread-safe.
class Dashboard final : public RequestObserver {
 public:
  // `clock` outlives it. `cost` reads what the process costs; the viewers are counted here.
  Dashboard(DashboardFeed::Options options, const Clock& clock, std::function<CostView()> cost);

  void OnFirstToken(int64_t ttft_ns) override { CountToken(); }
  void OnNextToken(int64_t gap_ns) override { CountToken(); }
  void OnRequestEnded(const RequestRecord& record) override ABSL_LOCKS_EXCLUDED(mutex_);
  // The router's loop publishes. Viewers hear of requests each time, and of the whole once a second.
  void OnView(const RouterView& view) ABSL_LOCKS_EXCLUDED(mutex_);
  // Somebody looks, until the stream is closed. Puts some megabytes of history together, without the lock.
  void AddViewer(std::shared_ptr<telemetry::EventStream> stream) ABSL_LOCKS_EXCLUDED(mutex_);
  int viewers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Viewer {
    std::shared_ptr<telemetry::EventStream> stream;
    // Events for a viewer whose history is still put together; unset from then on.
    std::optional<std::string> waiting;
  };

  void CountToken() { output_tokens_.fetch_add(1, std::memory_order_relaxed); }
  void CountTransfer(const JobResult& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetPairsOfOthers(const std::vector<WorkerView>& workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ClusterView MakeClusterView(const RouterView& view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Broadcast(const std::string& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const std::function<CostView()> cost_;
  std::atomic<int64_t> output_tokens_ = 0;
  mutable absl::Mutex mutex_;
  DashboardFeed feed_ ABSL_GUARDED_BY(mutex_);
  std::vector<Viewer> viewers_ ABSL_GUARDED_BY(mutex_);
  int64_t prompt_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::pair<std::string, std::string>, TransferPair> pairs_ ABSL_GUARDED_BY(mutex_);
  TimeNs next_snapshot_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DASHBOARD_H_
