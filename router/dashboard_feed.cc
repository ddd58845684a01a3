#include "router/dashboard_feed.h"

#include <algorithm>
#include <utility>

namespace baton::router {
namespace {

// Small enough that one block less is still nearly kMaxDashboardRequests.
constexpr size_t kRequestsOfABlock = 250;
constexpr TimeNs kRequestsIntervalNs = kDashboardRequestsIntervalMs * kNsPerMs;

// `json` is one line. telemetry::FormatEvent would look for others, which takes longer than all the rest of a history.
std::string OneLineEvent(std::string_view name, std::string_view json) {
  std::string event;
  event.reserve(name.size() + json.size() + 20);
  return event.append("event: ").append(name).append("\ndata: ").append(json).append("\n\n");
}

void AppendJoined(std::string& list, std::string_view json) {
  if (!list.empty()) list += ',';
  list += json;
}

// A copy takes no more than its text needs. A text that grew has up to twice that, and a history would keep it all.
std::shared_ptr<const std::string> Kept(std::string_view text) { return std::make_shared<const std::string>(text); }

void AppendAll(std::string& out, const std::vector<std::shared_ptr<const std::string>>& texts) {
  bool first = true;
  for (const auto& text : texts) {
    if (!first) out += ',';
    first = false;
    out += *text;
  }
}

double Rate(int64_t from, int64_t to, double seconds) {
  return seconds > 0 ? static_cast<double>(std::max<int64_t>(to - from, 0)) / seconds : 0;
}

}  // namespace

std::string DashboardHistory::Event() const {
  size_t size = 64;
  for (const auto* texts : {&snapshots_, &requests_}) {
    for (const auto& text : *texts) size += text->size() + 1;
  }
  std::string event;
  event.reserve(size);
  event += "event: history\ndata: {\"snapshots\":[";
  AppendAll(event, snapshots_);
  event += "],\"requests\":[";
  AppendAll(event, requests_);
  event += "]}\n\n";
  return event;
}

DashboardFeed::DashboardFeed(Options options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      started_at_(clock.Now()),
      window_(options_.objective),
      requests_sent_at_(started_at_ - kRequestsIntervalNs) {}

void DashboardFeed::OnRequestEnded(const EndedRequest& request) {
  window_.Add(clock_.Now(), request);
  ++totals_.requests;
  totals_.ok += request.outcome == RequestOutcome::kOk ? 1 : 0;
  totals_.failed += request.outcome != RequestOutcome::kOk && request.outcome != RequestOutcome::kCancelled ? 1 : 0;
  if (request.outcome == RequestOutcome::kOk) CountPhases(request);
  const std::string json = RequestJson(request);
  Keep(json);
  if (!watched_ || pending_overflowed_) return;
  AppendJoined(pending_, json);
  if (pending_.size() > kMaxDashboardPendingBytes) {
    pending_ = std::string();
    pending_overflowed_ = true;
  }
}

void DashboardFeed::CountPhases(const EndedRequest& request) {
  ++phases_.ended;
  for (size_t i = 0; i < kPhases; ++i) phases_.ms[i] += request.phases_ms[i];
}

void DashboardFeed::Keep(const std::string& json) {
  AppendJoined(open_block_, json);
  ++open_requests_;
  ++kept_requests_;
  kept_bytes_ += json.size() + 1;
  if (open_requests_ == kRequestsOfABlock) {
    blocks_.push_back({Kept(open_block_), open_requests_});
    open_block_.clear();
    open_requests_ = 0;
  }
  MakeRoom();
}

void DashboardFeed::MakeRoom() {
  while (!blocks_.empty() && (kept_requests_ > kMaxDashboardRequests || kept_bytes_ > kMaxDashboardRequestBytes)) {
    kept_requests_ -= blocks_.front().requests;
    kept_bytes_ -= blocks_.front().text->size() + 1;
    blocks_.pop_front();
  }
}

SnapshotRates DashboardFeed::RatesSince(const ClusterView& view, TimeNs now) {
  SnapshotRates rates;
  const double step_s =
      counters_.empty() ? 0 : static_cast<double>(now - counters_.back().at) / static_cast<double>(kNsPerSecond);
  absl::flat_hash_map<std::string, int64_t> steps;
  rates.steps_per_s.reserve(view.workers.size());
  for (const DashboardWorker& worker : view.workers) {
    std::optional<double>& rate = rates.steps_per_s.emplace_back();
    if (!worker.steps) continue;
    const auto before = steps_.find(worker.id);
    if (before != steps_.end() && step_s > 0) rate = Rate(before->second, *worker.steps, step_s);
    steps[worker.id] = *worker.steps;
  }
  steps_ = std::move(steps);
  if (!counters_.empty()) {
    const CostView& last = counters_.back().cost;
    rates.cpu_cores = Rate(last.cpu_ns, view.cost.cpu_ns, step_s) / kNsPerSecond;
    rates.telemetry_cpu_cores = Rate(last.telemetry_cpu_ns, view.cost.telemetry_cpu_ns, step_s) / kNsPerSecond;
    rates.event_bytes_per_s = Rate(last.event_bytes, view.cost.event_bytes, step_s);
    const Counters& oldest = counters_.front();
    const double window_s = static_cast<double>(now - oldest.at) / static_cast<double>(kNsPerSecond);
    rates.prompt_tokens_per_s = Rate(oldest.prompt_tokens, view.prompt_tokens, window_s);
    rates.output_tokens_per_s = Rate(oldest.output_tokens, view.output_tokens, window_s);
  }
  counters_.push_back({now, view.prompt_tokens, view.output_tokens, view.cost});
  while (counters_.size() > kDashboardWindowMs / 1000 || counters_.front().at <= now - kDashboardWindowMs * kNsPerMs) {
    counters_.pop_front();
  }
  return rates;
}

std::string DashboardFeed::Snapshot(ClusterView view) {
  const TimeNs now = clock_.Now();
  SnapshotRates rates = RatesSince(view, now);
  PhaseMeans means = std::exchange(phases_, {});
  for (double& ms : means.ms) ms /= static_cast<double>(std::max<int64_t>(means.ended, 1));
  last_ = SnapshotFacts{.view = std::move(view),
                        .window = window_.Summarize(now),
                        .objective = options_.objective,
                        .rates = std::move(rates),
                        .totals = totals_,
                        .phases = means,
                        .uptime_s = static_cast<double>(now - started_at_) / kNsPerSecond,
                        .version = options_.version,
                        .model = options_.model};
  snapshots_.push_back(Kept(SnapshotJson(*last_, /*whole=*/false)));
  if (snapshots_.size() > kMaxDashboardSnapshots) snapshots_.pop_front();
  watched_ = last_->view.cost.viewers > 0;
  if (watched_) return OneLineEvent("snapshot", SnapshotJson(*last_, /*whole=*/true));
  pending_.clear();
  pending_overflowed_ = false;
  return "";
}

std::string DashboardFeed::PendingEvent(TimeNs now) {
  if (pending_.empty() && !pending_overflowed_) return "";
  requests_sent_at_ = now;
  if (std::exchange(pending_overflowed_, false)) return History().Event();
  return OneLineEvent("requests", "[" + std::exchange(pending_, {}) + "]");
}

std::string DashboardFeed::TakeRequests() {
  const TimeNs now = clock_.Now();
  return now < requests_sent_at_ + kRequestsIntervalNs ? "" : PendingEvent(now);
}

TimeNs DashboardFeed::next_requests_at() const {
  return pending_.empty() && !pending_overflowed_ ? kNever : requests_sent_at_ + kRequestsIntervalNs;
}

std::pair<std::string, DashboardHistory> DashboardFeed::Welcome() {
  std::string for_others = PendingEvent(clock_.Now());
  watched_ = true;
  return {std::move(for_others), History()};
}

size_t DashboardFeed::HistoryRoomBytes() const {
  size_t bytes = open_block_.capacity();
  for (const Block& block : blocks_) bytes += block.text->capacity();
  for (const auto& snapshot : snapshots_) bytes += snapshot->capacity();
  return bytes;
}

DashboardHistory DashboardFeed::History() const {
  DashboardHistory history;
  history.snapshots_.assign(snapshots_.begin(), snapshots_.end());
  if (last_) history.snapshots_.back() = std::make_shared<const std::string>(SnapshotJson(*last_, /*whole=*/true));
  history.requests_.reserve(blocks_.size() + 1);
  for (const Block& block : blocks_) history.requests_.push_back(block.text);
  if (!open_block_.empty()) history.requests_.push_back(std::make_shared<const std::string>(open_block_));
  return history;
}

}  // namespace baton::router
