// Helpers for metrics with prometheus-cpp: buckets, bounded labels, values that are read when Prometheus asks, and the
// text of /metrics. docs/observability.md has the table of all metrics.
#ifndef BATON_TELEMETRY_METRICS_H_
#define BATON_TELEMETRY_METRICS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/check.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/labels.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"

namespace baton::telemetry {

using Buckets = prometheus::Histogram::BucketBoundaries;

// Upper bounds, ascending. Seconds, from models of 100 MB to such of 1 TB.
const Buckets& TtftBuckets();
const Buckets& ItlBuckets();
const Buckets& EndToEndBuckets();
// Phases of requests, and transfers.
const Buckets& PhaseBuckets();
const Buckets& EngineStepBuckets();
// Numbers of tokens, of sequences and the like: powers of 4 up to 1048576.
const Buckets& CountBuckets();

// The media type of RenderMetrics.
inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// A label's value is cut after this many bytes.
inline constexpr size_t kMaxLabelValueBytes = 128;
inline constexpr char kOtherLabel[] = "other";

// Text that others chose, as a label's value: its first kMaxLabelValueBytes as valid UTF-8. The library escapes it.
std::string LabelValue(std::string_view text);

// The text 0.0.4 of all metrics. Thread-safe. No two sources have a family of the same name.
std::string RenderMetrics(absl::Span<const std::shared_ptr<prometheus::Collectable>> sources);

// Metrics whose values are read when Prometheus asks for them, on the thread that asks. Families are added before the
// first Collect.
class CallbackMetrics final : public prometheus::Collectable {
 public:
  struct Sample {
    prometheus::Labels labels;
    double value = 0;
  };

  // Thread-safe, and quick.
  using ReadValue = std::function<double()>;
  using ReadSamples = std::function<std::vector<Sample>()>;

  void AddGauge(std::string name, std::string help, ReadValue read, prometheus::Labels labels = {});
  void AddCounter(std::string name, std::string help, ReadValue read, prometheus::Labels labels = {});
  // These are for families whose label sets change. Values of labels pass through LabelValue.
  void AddGauges(std::string name, std::string help, ReadSamples read);
  void AddCounters(std::string name, std::string help, ReadSamples read);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Source {
    std::string name;
    std::string help;
    prometheus::MetricType type;
    ReadSamples read;
  };

  std::vector<Source> sources_;
};

struct BuildInfo {
  std::string role;
  std::string model;
  std::string numerics;
  std::string transport;
};
// The gauge `baton_build_info`, with the version.
void AddBuildInfo(prometheus::Registry& registry, const BuildInfo& info);

// A family with a bounded number of label sets, for labels whose values others choose. When there are `max_sets`,
// further ones share one metric, all of whose labels are "other". Thread-safe.
template <typename Metric>
class BoundedFamily {
 public:
  // `family` outlives this object, and nobody else adds metrics to it. `extra` are the arguments of Family::Add behind
  // the labels: of histograms, the buckets.
  template <typename... Extra>
  BoundedFamily(prometheus::Family<Metric>& family, std::vector<std::string> names, size_t max_sets, Extra... extra)
      : family_(family), names_(std::move(names)), max_sets_(max_sets) {
    add_ = [this, extra...](const prometheus::Labels& labels) { return &family_.Add(labels, extra...); };
  }

  // One value for each name. The metric lives until Remove is called with the same values.
  Metric& With(absl::Span<const std::string_view> values) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives the room of a label set up, for example when its worker has left for good. Nothing for a set that has none.
  void Remove(absl::Span<const std::string_view> values) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::vector<std::string> Key(absl::Span<const std::string_view> values) const;
  Metric* Add(const std::vector<std::string>& values);

  prometheus::Family<Metric>& family_;
  const std::vector<std::string> names_;
  const size_t max_sets_;
  std::function<Metric*(const prometheus::Labels&)> add_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::vector<std::string>, Metric*> sets_ ABSL_GUARDED_BY(mutex_);
  Metric* other_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

template <typename Metric>
std::vector<std::string> BoundedFamily<Metric>::Key(absl::Span<const std::string_view> values) const {
  BATON_CHECK(values.size() == names_.size());
  std::vector<std::string> key;
  key.reserve(values.size());
  for (const std::string_view value : values) key.push_back(LabelValue(value));
  return key;
}

template <typename Metric>
Metric* BoundedFamily<Metric>::Add(const std::vector<std::string>& values) {
  prometheus::Labels labels;
  for (size_t i = 0; i < names_.size(); ++i) labels[names_[i]] = values[i];
  return add_(labels);
}

template <typename Metric>
Metric& BoundedFamily<Metric>::With(absl::Span<const std::string_view> values) {
  const std::vector<std::string> key = Key(values);
  const absl::MutexLock lock(&mutex_);
  if (const auto found = sets_.find(key); found != sets_.end()) return *found->second;
  const std::vector<std::string> others(names_.size(), kOtherLabel);
  if (sets_.size() < max_sets_ && key != others) return *sets_.emplace(key, Add(key)).first->second;
  if (other_ == nullptr) other_ = Add(others);
  return *other_;
}

template <typename Metric>
void BoundedFamily<Metric>::Remove(absl::Span<const std::string_view> values) {
  const std::vector<std::string> key = Key(values);
  const absl::MutexLock lock(&mutex_);
  const auto found = sets_.find(key);
  if (found == sets_.end()) return;
  family_.Remove(found->second);
  sets_.erase(found);
}

template <typename Metric>
size_t BoundedFamily<Metric>::size() const {
  const absl::MutexLock lock(&mutex_);
  return sets_.size();
}

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_METRICS_H_
