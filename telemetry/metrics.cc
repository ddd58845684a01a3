#include "telemetry/metrics.h"

#include <algorithm>
#include <iterator>

#include "common/utf8.h"
#include "common/version.h"
#include "prometheus/text_serializer.h"

namespace baton::telemetry {

const Buckets& TtftBuckets() {
  static const Buckets kBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                   1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
  return kBuckets;
}

const Buckets& ItlBuckets() {
  static const Buckets kBuckets = {.001, .0025, .005, .01, .02, .03, .04, .05, .075, .1,
                                   .15,  .2,    .3,   .4,  .5,  .75, 1,   2.5, 5,    10};
  return kBuckets;
}

const Buckets& EndToEndBuckets() {
  static const Buckets kBuckets = {.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1200, 3600};
  return kBuckets;
}

const Buckets& PhaseBuckets() {
  static const Buckets kBuckets = {.0005, .001, .0025, .005, .01, .025, .05, .1,  .25, .5,
                                   1,     2.5,  5,     10,   30,  60,   120, 300, 600, 1800};
  return kBuckets;
}

const Buckets& EngineStepBuckets() {
  static const Buckets kBuckets = {.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05,
                                   .1,    .25,    .5,    1,    2.5,   5,    10,  30};
  return kBuckets;
}

const Buckets& CountBuckets() {
  static const Buckets kBuckets = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};
  return kBuckets;
}

std::string LabelValue(std::string_view text) { return DecodeUtf8LossyPrefix(text, kMaxLabelValueBytes); }

std::string RenderMetrics(absl::Span<const std::shared_ptr<prometheus::Collectable>> sources) {
  std::vector<prometheus::MetricFamily> families;
  for (const std::shared_ptr<prometheus::Collectable>& source : sources) {
    std::vector<prometheus::MetricFamily> more = source->Collect();
    families.insert(families.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return prometheus::TextSerializer().Serialize(families);
}

void CallbackMetrics::AddGauge(std::string name, std::string help, ReadValue read, prometheus::Labels labels) {
  AddGauges(std::move(name), std::move(help), [read = std::move(read), labels = std::move(labels)] {
    return std::vector<Sample>{{.labels = labels, .value = read()}};
  });
}

void CallbackMetrics::AddCounter(std::string name, std::string help, ReadValue read, prometheus::Labels labels) {
  AddCounters(std::move(name), std::move(help), [read = std::move(read), labels = std::move(labels)] {
    return std::vector<Sample>{{.labels = labels, .value = read()}};
  });
}

void CallbackMetrics::AddGauges(std::string name, std::string help, ReadSamples read) {
  sources_.push_back({std::move(name), std::move(help), prometheus::MetricType::Gauge, std::move(read)});
}

void CallbackMetrics::AddCounters(std::string name, std::string help, ReadSamples read) {
  sources_.push_back({std::move(name), std::move(help), prometheus::MetricType::Counter, std::move(read)});
}

std::vector<prometheus::MetricFamily> CallbackMetrics::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  for (const Source& source : sources_) {
    const auto has_its_name = [&](const prometheus::MetricFamily& family) { return family.name == source.name; };
    auto family = std::find_if(families.begin(), families.end(), has_its_name);
    if (family == families.end()) {
      families.push_back({.name = source.name, .help = source.help, .type = source.type});
      family = std::prev(families.end());
    }
    for (const Sample& sample : source.read()) {
      prometheus::ClientMetric& metric = family->metric.emplace_back();
      for (const auto& [name, value] : sample.labels) metric.label.push_back({name, LabelValue(value)});
      // Only the one that the family's type names is shown.
      metric.gauge.value = sample.value;
      metric.counter.value = sample.value;
    }
  }
  return families;
}

void AddBuildInfo(prometheus::Registry& registry, const BuildInfo& info) {
  prometheus::BuildGauge()
      .Name("baton_build_info")
      .Help("1, with what this process is")
      .Register(registry)
      .Add({{"version", kVersion},
            {"role", LabelValue(info.role)},
            {"model", LabelValue(info.model)},
            {"numerics", LabelValue(info.numerics)},
            {"transport", LabelValue(info.transport)}})
      .Set(1);
}

}  // namespace baton::telemetry
