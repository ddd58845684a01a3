// The dashboard's facts as JSON, in the form that dashboard/wire.js reads. Texts are cut to what the page shows, and
// what is not UTF-8 in them is replaced.
#ifndef BATON_ROUTER_DASHBOARD_JSON_H_
#define BATON_ROUTER_DASHBOARD_JSON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "router/dashboard_facts.h"
#include "router/dashboard_window.h"

namespace baton::router {

inline constexpr size_t kMaxDashboardTextBytes = 200;

// Rates between two snapshots.
struct SnapshotRates {
  double cpu_cores = 0;
  double telemetry_cpu_cores = 0;
  double event_bytes_per_s = 0;
  double prompt_tokens_per_s = 0;
  double output_tokens_per_s = 0;
  // In the order of the view's workers; none of a worker that was not there before.
  std::vector<std::optional<double>> steps_per_s;
};

// How requests ended since the router started.
struct RequestTotals {
  int64_t requests = 0;
  int64_t ok = 0;
  int64_t failed = 0;
};

struct PhaseMeans {
  // How many requests they are of. Without any there are no means.
  int64_t ended = 0;
  std::array<double, kPhases> ms = {};
};

struct SnapshotFacts {
  ClusterView view;
  WindowSummary window;
  Objective objective;
  SnapshotRates rates;
  RequestTotals totals;
  PhaseMeans phases;
  double uptime_s = 0;
  std::string version;
  std::string model;
};

std::string RequestJson(const EndedRequest& request);

// Without `whole` it lacks the workers and the transfers.
std::string SnapshotJson(const SnapshotFacts& facts, bool whole);

// The first kMaxDashboardTextBytes of a text, or fewer where that would cut a character.
std::string_view CutText(std::string_view text);

}  // namespace baton::router

#endif  // BATON_ROUTER_DASHBOARD_JSON_H_
