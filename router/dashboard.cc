#include "router/dashboard.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton::router {
namespace {

// The page shows no more of an error.
constexpr size_t kMaxErrorBytes = 200;

std::array<double, kPhases> PhasesOf(const RequestRecord& record) {
  const PhaseTimes& phases = record.phases;
  return {NsToMs(phases.queue_ns),    NsToMs(phases.admission_ns), NsToMs(phases.prefill_ns),
          NsToMs(phases.transfer_ns), NsToMs(phases.decode_ns),    NsToMs(record.network_ns)};
}

EndedRequest ToEnded(const RequestRecord& record) {
  EndedRequest ended;
  ended.id = record.id.ToHex();
  if (!record.trace.trace_id.is_zero()) ended.trace_id = record.trace.trace_id.ToHex();
  ended.end_unix_ms = (record.arrived_unix_ns + record.total_ns) / kNsPerMs;
  ended.outcome = record.outcome;
  if (record.outcome == RequestOutcome::kOk) {
    ended.finish = record.finish == FinishReason::kStop ? "stop" : "length";
  } else {
    ended.error = std::string(record.status.message().substr(0, kMaxErrorBytes));
  }
  ended.prompt_tokens = record.prompt_tokens;
  ended.output_tokens = record.output_tokens;
  if (record.ttft_ns > 0) ended.ttft_ms = NsToMs(record.ttft_ns);
  if (record.mean_itl_ns > 0) ended.itl_ms = NsToMs(record.mean_itl_ns);
  ended.total_ms = NsToMs(record.total_ns);
  ended.phases_ms = PhasesOf(record);
  if (record.job == nullptr) return ended;
  ended.cached_tokens = record.job->cached_tokens;
  ended.attempts = record.job->attempts;
  ended.prefill_worker = record.job->prefill_worker;
  ended.decode_worker = record.job->decode_worker;
  ended.transfer_bytes = record.job->decode.transfer_bytes;
  return ended;
}

DashboardWorker ToShown(const WorkerView& worker) {
  DashboardWorker shown;
  shown.id = worker.incarnation.ToHex();
  shown.pid = worker.pid;
  shown.role = RoleName(worker.role);
  shown.address = worker.address;
  shown.admin = worker.admin;
  shown.state = worker.load.state == WorkerState::kServing ? "serving" : "draining";
  shown.group = worker.group;
  shown.running = worker.load.running;
  shown.used_blocks = worker.load.used_blocks;
  shown.free_blocks = worker.load.free_blocks;
  shown.cached_blocks = worker.load.cached_blocks;
  shown.total_blocks = worker.total_blocks;
  shown.pending_prompt_tokens = worker.load.pending_prompt_tokens;
  if (worker.load.step_age_ms > 0) shown.step_age_ms = static_cast<double>(worker.load.step_age_ms);
  shown.steps = worker.load.steps;
  return shown;
}

}  // namespace

Dashboard::Dashboard(DashboardFeed::Options options, const Clock& clock, std::function<CostView()> cost)
    : clock_(clock), cost_(std::move(cost)), feed_(std::move(options), clock) {}

void Dashboard::OnRequestEnded(const RequestRecord& record) {
  const EndedRequest ended = ToEnded(record);
  absl::MutexLock lock(&mutex_);
  if (record.outcome == RequestOutcome::kOk) prompt_tokens_ += record.prompt_tokens;
  if (record.job != nullptr) CountTransfer(*record.job);
  feed_.OnRequestEnded(ended);
}

void Dashboard::CountTransfer(const JobResult& job) {
  if (job.decode.transfer_bytes == 0) return;
  const std::pair<std::string, std::string> key = {job.prefill_worker, job.decode_worker};
  if (pairs_.size() >= kMaxDashboardPairs && !pairs_.contains(key)) return;
  TransferPair& pair = pairs_[key];
  pair.source = key.first;
  pair.target = key.second;
  pair.bytes += job.decode.transfer_bytes;
  pair.seconds += static_cast<double>(job.decode.read_ns) / kNsPerSecond;
  ++pair.reads;
}

// Each worker that starts again has an address of its own, and would leave its pairs behind.
void Dashboard::ForgetPairsOfOthers(const std::vector<WorkerView>& workers) {
  absl::flat_hash_set<absl::string_view> here;
  for (const WorkerView& worker : workers) here.insert(worker.address);
  absl::erase_if(pairs_, [&here](const auto& entry) {
    return !here.contains(entry.first.first) || !here.contains(entry.first.second);
  });
}

void Dashboard::OnView(const RouterView& view) {
  absl::MutexLock lock(&mutex_);
  viewers_.erase(
      std::remove_if(viewers_.begin(), viewers_.end(), [](const auto& viewer) { return viewer.stream->closed(); }),
      viewers_.end());
  Broadcast(feed_.TakeRequests());
  if (clock_.Now() < next_snapshot_) return;
  next_snapshot_ = After(clock_.Now(), kSnapshotIntervalMs);
  Broadcast(feed_.Snapshot(MakeClusterView(view)));
}

ClusterView Dashboard::MakeClusterView(const RouterView& view) {
  ClusterView cluster;
  cluster.unix_ms = absl::ToUnixMillis(absl::Now());
  cluster.serving = view.serving;
  cluster.waits_for = view.waits_for;
  cluster.running = view.running_jobs;
  cluster.waiting = view.queued_jobs;
  cluster.prompt_tokens = prompt_tokens_;
  cluster.output_tokens = output_tokens_.load(std::memory_order_relaxed);
  for (const WorkerView& worker : view.workers) cluster.workers.push_back(ToShown(worker));
  ForgetPairsOfOthers(view.workers);
  for (const auto& [key, pair] : pairs_) cluster.transfers.push_back(pair);
  cluster.cost = cost_();
  cluster.cost.viewers = static_cast<int>(viewers_.size());
  return cluster;
}

void Dashboard::Broadcast(const std::string& event) {
  if (event.empty()) return;
  for (Viewer& viewer : viewers_) {
    if (viewer.waiting.has_value()) {
      *viewer.waiting += event;
    } else {
      viewer.stream->Write(event);
    }
  }
}

void Dashboard::AddViewer(std::shared_ptr<telemetry::EventStream> stream) {
  DashboardHistory history;
  {
    absl::MutexLock lock(&mutex_);
    auto [for_others, of_new] = feed_.Welcome();
    Broadcast(for_others);
    history = std::move(of_new);
    viewers_.push_back({.stream = stream, .waiting = ""});
  }
  // Megabytes, for which the router's loop does not wait. Nobody else writes to the stream while `waiting` is set.
  stream->Write(history.Event());
  absl::MutexLock lock(&mutex_);
  // It is gone when its stream was closed meanwhile.
  const auto viewer =
      std::find_if(viewers_.begin(), viewers_.end(), [&](const Viewer& one) { return one.stream == stream; });
  if (viewer == viewers_.end()) return;
  if (!viewer->waiting->empty()) stream->Write(*viewer->waiting);
  viewer->waiting.reset();
}

int Dashboard::viewers() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(viewers_.size());
}

}  // namespace baton::router
