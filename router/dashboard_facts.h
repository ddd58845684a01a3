// What the router's loop tells the dashboard's feed.
#ifndef BATON_ROUTER_DASHBOARD_FACTS_H_
#define BATON_ROUTER_DASHBOARD_FACTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "router/request_outcome.h"

namespace baton::router {

// In the order in which they follow each other; they add up to the whole request.
enum class Phase { kQueue, kAdmission, kPrefill, kTransfer, kDecode, kNetwork };
inline constexpr size_t kPhases = 6;

// A request that reached the router and has ended, well or not.
struct EndedRequest {
  // 32 hex digits, the second one empty when the request is not traced.
  std::string id;
  std::string trace_id;
  int64_t end_unix_ms = 0;
  RequestOutcome outcome = RequestOutcome::kOk;
  // "stop" or "length"; empty when it did not end well.
  std::string finish;
  std::string error;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
  int attempts = 0;
  // Addresses; empty where it never came to one.
  std::string prefill_worker;
  std::string decode_worker;
  // From its arrival; none without a token.
  std::optional<double> ttft_ms;
  // The mean between its tokens; none with fewer than two.
  std::optional<double> itl_ms;
  double total_ms = 0;
  // By Phase.
  std::array<double, kPhases> phases_ms = {};
  int64_t transfer_bytes = 0;
};

struct DashboardWorker {
  // Its incarnation: 32 hex digits. Never its membership, which proves who speaks.
  std::string id;
  int64_t pid = 0;
  // "prefill", "decode" or "mixed".
  std::string role;
  std::string address;
  std::string admin;
  // "serving" or "draining".
  std::string state;
  std::string group;
  int64_t running = 0;
  int64_t used_blocks = 0;
  int64_t free_blocks = 0;
  int64_t cached_blocks = 0;
  int64_t total_blocks = 0;
  int64_t pending_prompt_tokens = 0;
  // None while no step runs.
  std::optional<double> step_age_ms;
  // Since the worker started; none when it does not say.
  std::optional<int64_t> steps;
};

// What a prefill worker handed to a decode worker since the router started.
struct TransferPair {
  std::string source;
  std::string target;
  int64_t bytes = 0;
  double seconds = 0;
  int64_t reads = 0;
};

// Counters of the router's process, since it started.
struct CostView {
  int64_t cpu_ns = 0;
  // CPU time of the threads and calls that observe, without what they observe.
  int64_t telemetry_cpu_ns = 0;
  int64_t rss_bytes = 0;
  int viewers = 0;
  int64_t event_bytes = 0;
};

// The cluster at one moment.
struct ClusterView {
  int64_t unix_ms = 0;
  bool serving = false;
  // What is missing while it does not serve; empty while it does.
  std::string waits_for;
  int64_t running = 0;
  int64_t waiting = 0;
  // Since the router started, those of running requests included.
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  std::vector<DashboardWorker> workers;
  std::vector<TransferPair> transfers;
  CostView cost;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_DASHBOARD_FACTS_H_
