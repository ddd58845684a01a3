// What requests were asked, how they ended and how long each phase took, as metrics. Where the meaning is the same the
// names are vLLM's, so that dashboards and autoscalers made for it work; docs/metrics.md has the table.
#ifndef BATON_ROUTER_REQUEST_METRICS_H_
#define BATON_ROUTER_REQUEST_METRICS_H_

#include <array>
#include <memory>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "router/refusal_reason.h"
#include "router/request_record.h"
#include "telemetry/metrics.h"

namespace baton::router {

struct RequestMetricsOptions {
  // The name by which clients ask for the model.
  std::string model;
  // The objective that goodput counts. 0: none, and every request keeps it.
  int64_t ttft_target_ms = 0;
  int64_t itl_target_ms = 0;
};

// Pairs of workers that have metrics; a further one replaces the pair whose last hand-off is longest ago.
inline constexpr size_t kMaxTransferPairs = 256;

// Thread-safe.
class RequestMetrics final : public RequestObserver {
 public:
  RequestMetrics(const RequestMetricsOptions& options, prometheus::Registry& registry);

  void OnFirstToken(int64_t ttft_ns) override {
    ttft_.Observe(Seconds(ttft_ns));
    output_tokens_.Increment();
  }
  void OnNextToken(int64_t gap_ns) override {
    itl_.Observe(Seconds(gap_ns));
    output_tokens_.Increment();
  }
  void OnRequestEnded(const RequestRecord& record) override;

 private:
  static double Seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }
  prometheus::Histogram& AddHistogram(const char* name, const char* help, const telemetry::Buckets& buckets);
  prometheus::Counter& AddCounter(const char* name, const char* help);
  void ObservePhases(const RequestRecord& record);
  void CountAttempts(const RequestRecord& record);
  void CountTransfer(const JobResult& job);
  void CountObjectives(const RequestRecord& record);

  const RequestMetricsOptions options_;
  prometheus::Registry& registry_;
  prometheus::Histogram& ttft_;
  prometheus::Histogram& itl_;
  prometheus::Histogram& end_to_end_;
  prometheus::Histogram& queue_time_;
  prometheus::Histogram& prefill_time_;
  prometheus::Histogram& decode_time_;
  prometheus::Histogram& inference_time_;
  prometheus::Histogram& request_prompt_tokens_;
  prometheus::Histogram& request_output_tokens_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& output_tokens_;
  prometheus::Counter& prefix_queries_;
  prometheus::Counter& prefix_hits_;
  // By FinishReason::kStop and kLength.
  prometheus::Counter* success_stop_ = nullptr;
  prometheus::Counter* success_length_ = nullptr;
  // In the order of the request's way.
  std::array<prometheus::Histogram*, 6> phases_ = {};
  std::array<prometheus::Counter*, kRequestOutcomes.size()> outcomes_ = {};
  std::array<prometheus::Counter*, kRefusalReasons.size()> refusals_ = {};
  // "ok", "refused", "failed", "lost", "cancelled".
  std::array<prometheus::Counter*, 6> attempts_ = {};
  prometheus::Counter& other_numerics_;
  // "ttft", "itl", "both".
  std::array<prometheus::Counter*, 3> within_objective_ = {};
  telemetry::BoundedFamily<prometheus::Counter> pair_bytes_;
  telemetry::BoundedFamily<prometheus::Counter> pair_seconds_;
  telemetry::BoundedFamily<prometheus::Counter> pair_reads_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_REQUEST_METRICS_H_
