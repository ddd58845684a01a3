// Helpers for metrics with prometheus-cpp: buckets, bounded labels, values that are read when Prometheus asks, and the
// text of /metrics. docs/metrics.md has the table of all metrics.
#ifndef BATON_TELEMETRY_METRICS_H_
#define BATON_TELEMETRY_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/check.h"
#include "common/clock.h"
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

// A set of labels that nobody has changed for so long goes when a new one comes: it is that of a worker that has left.
// Prometheus has scraped its last value many times by then.
inline constexpr int64_t kIdleSetMs = 300'000;

struct SetBounds {
  // At least 1.
  size_t max_sets = 1;
  const Clock& clock = MonotonicClock();
};

// A family with a bounded number of label sets, for labels whose values others choose. A new set takes the place of
// those that are idle and, when there are `max_sets` all the same, of the set that was changed least recently. A set
// that comes back starts anew, as all do when a process starts. Thread-safe.
template <typename Metric>
class BoundedFamily {
 public:
  // `family` and the clock outlive this object, and nobody else adds metrics to the family. `extra` are the arguments
  // of Family::Add behind the labels: of histograms, the buckets.
  template <typename... Extra>
  BoundedFamily(prometheus::Family<Metric>& family, std::vector<std::string> names, const SetBounds& bounds,
                Extra... extra)
      : family_(family), names_(std::move(names)), bounds_(bounds) {
    BATON_CHECK(bounds_.max_sets > 0);
    add_ = [this, extra...](const prometheus::Labels& labels) { return &family_.Add(labels, extra...); };
  }

  // Calls `change` with the metric of these label values, one for each name. The metric may be gone after the call, so
  // `change` keeps no reference to it. `change` is quick and does not use this object.
  void Update(absl::Span<const std::string_view> values, absl::FunctionRef<void(Metric&)> change)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::vector<std::string>;
  struct Change {
    Key key;
    TimeNs at;
  };
  struct Set {
    Metric* metric;
    typename std::list<Change>::iterator change;
  };

  Key MakeKey(absl::Span<const std::string_view> values) const;
  Metric* Find(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  prometheus::Family<Metric>& family_;
  const std::vector<std::string> names_;
  const SetBounds bounds_;
  std::function<Metric*(const prometheus::Labels&)> add_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Key, Set> sets_ ABSL_GUARDED_BY(mutex_);
  // When each of `sets_` was changed last. The most recent change is the first.
  std::list<Change> changes_ ABSL_GUARDED_BY(mutex_);
};

template <typename Metric>
typename BoundedFamily<Metric>::Key BoundedFamily<Metric>::MakeKey(absl::Span<const std::string_view> values) const {
  BATON_CHECK(values.size() == names_.size());
  Key key;
  key.reserve(values.size());
  for (const std::string_view value : values) key.push_back(LabelValue(value));
  return key;
}

template <typename Metric>
void BoundedFamily<Metric>::RemoveOldest() {
  const auto oldest = sets_.find(changes_.back().key);
  family_.Remove(oldest->second.metric);
  sets_.erase(oldest);
  changes_.pop_back();
}

template <typename Metric>
Metric* BoundedFamily<Metric>::Find(const Key& key) {
  const TimeNs now = bounds_.clock.Now();
  if (const auto found = sets_.find(key); found != sets_.end()) {
    changes_.splice(changes_.begin(), changes_, found->second.change);
    changes_.front().at = now;
    return found->second.metric;
  }
  while (!changes_.empty() && now >= After(changes_.back().at, kIdleSetMs)) RemoveOldest();
  if (sets_.size() >= bounds_.max_sets) RemoveOldest();
  prometheus::Labels labels;
  for (size_t i = 0; i < names_.size(); ++i) labels[names_[i]] = key[i];
  Metric* metric = add_(labels);
  changes_.push_front({.key = key, .at = now});
  sets_.emplace(key, Set{.metric = metric, .change = changes_.begin()});
  return metric;
}

template <typename Metric>
void BoundedFamily<Metric>::Update(absl::Span<const std::string_view> values, absl::FunctionRef<void(Metric&)> change) {
  const Key key = MakeKey(values);
  const absl::MutexLock lock(&mutex_);
  change(*Find(key));
}

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_METRICS_H_
