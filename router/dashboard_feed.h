// What the dashboard is told. Facts of the router's loop come in, and server-sent events for the viewers come out, in
// the form of the contract of /events: a history for a new viewer, then a snapshot every second and the requests that
// have ended, at most ten times a second.
//
// Nobody has to look: what the next viewer will ask for is kept all the same, at the cost of one JSON text for each
// request and one, without the workers, for each second.
#ifndef BATON_ROUTER_DASHBOARD_FEED_H_
#define BATON_ROUTER_DASHBOARD_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/clock.h"
#include "router/dashboard_facts.h"
#include "router/dashboard_json.h"
#include "router/dashboard_window.h"

namespace baton::router {

// What a new viewer gets. The bytes stay below what an event stream may hold unread.
inline constexpr size_t kMaxDashboardRequests = 10'000;
inline constexpr size_t kMaxDashboardRequestBytes = size_t{11} << 19;
inline constexpr size_t kMaxDashboardSnapshots = 300;
// Between two events of requests.
inline constexpr int64_t kDashboardRequestsIntervalMs = 100;
// What may wait for the next such event. Beyond it viewers get the history again instead.
inline constexpr size_t kMaxDashboardPendingBytes = size_t{1} << 20;

// A history that is not put together yet. The pieces are never changed, so any thread may do that, and keep it.
class DashboardHistory {
 public:
  // The event's text: some megabytes, a millisecond or two.
  std::string Event() const;

 private:
  friend class DashboardFeed;
  // Texts of objects with commas between them, the oldest first.
  std::vector<std::shared_ptr<const std::string>> snapshots_;
  std::vector<std::shared_ptr<const std::string>> requests_;
};

// Used by one thread.
class DashboardFeed {
 public:
  struct Options {
    Objective objective;
    std::string version;
    std::string model;
  };

  // `clock` outlives it.
  DashboardFeed(Options options, const Clock& clock);

  void OnRequestEnded(const EndedRequest& request);

  // To be called every second, whether or not somebody looks. The event for all viewers; empty while the view counts
  // none of those that were welcomed.
  std::string Snapshot(ClusterView view);

  // The event for all viewers with the requests that have ended since the last one. Empty when there are none, and
  // until kDashboardRequestsIntervalMs have passed.
  std::string TakeRequests();
  // When TakeRequests will have something to say; kNever while there is nothing.
  TimeNs next_requests_at() const;

  // A viewer comes. The first event is for those that are already there, so that none of them misses what the history
  // of the new one has, and the new one gets nothing twice; it may be empty.
  std::pair<std::string, DashboardHistory> Welcome();

  // The memory that the texts of the history take, with what they have room for and do not use.
  size_t HistoryRoomBytes() const;

 private:
  // Requests in the order of their ends, as one text. A block that is full is shared and never changed.
  struct Block {
    std::shared_ptr<const std::string> text;
    size_t requests = 0;
  };
  // Counters at a snapshot.
  struct Counters {
    TimeNs at = 0;
    int64_t prompt_tokens = 0;
    int64_t output_tokens = 0;
    CostView cost;
  };

  void Keep(const std::string& json);
  void MakeRoom();
  void CountPhases(const EndedRequest& request);
  SnapshotRates RatesSince(const ClusterView& view, TimeNs now);
  std::string PendingEvent(TimeNs now);
  DashboardHistory History() const;

  const Options options_;
  const Clock& clock_;
  const TimeNs started_at_;
  DashboardWindow window_;
  RequestTotals totals_;
  // Sums, until a snapshot makes means of them.
  PhaseMeans phases_;

  std::deque<Block> blocks_;
  std::string open_block_;
  size_t open_requests_ = 0;
  size_t kept_requests_ = 0;
  size_t kept_bytes_ = 0;

  // The counters of the last minute, the oldest first.
  std::deque<Counters> counters_;
  // Steps of each worker at the last snapshot.
  absl::flat_hash_map<std::string, int64_t> steps_;
  // Without workers. A viewer gets the last one whole, from `last_`, so that nobody pays for workers while nobody
  // looks.
  std::deque<std::shared_ptr<const std::string>> snapshots_;
  std::optional<SnapshotFacts> last_;

  bool watched_ = false;
  std::string pending_;
  bool pending_overflowed_ = false;
  TimeNs requests_sent_at_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DASHBOARD_FEED_H_
