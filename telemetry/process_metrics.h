// What the system says of this process, under the names that all Prometheus clients use, process_cpu_seconds_total and
// others; and what glibc says of its heap.
#ifndef BATON_TELEMETRY_PROCESS_METRICS_H_
#define BATON_TELEMETRY_PROCESS_METRICS_H_

#include <optional>
#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace baton::telemetry {

// Reads /proc at each Collect, and has glibc count the free chunks of the heap, which stays locked meanwhile: 0.2
// microseconds a chunk. A value that the system does not tell is left out. Thread-safe.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  // `proc` is the folder to read, for tests.
  explicit ProcessMetrics(std::string proc = "/proc");

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string proc_;
  // It does not change, and /proc/stat is slow to read.
  const std::optional<double> start_time_s_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_PROCESS_METRICS_H_
