#include "router/request_metrics.h"

#include <cstddef>

#include "prometheus/gauge.h"

namespace baton::router {
namespace {

using prometheus::Counter;
using prometheus::Histogram;

constexpr std::array kPhaseNames = {"queue", "admission", "prefill", "transfer", "decode", "network"};
enum AttemptEnd : size_t { kServed, kRefused, kFailed, kLost, kCancelled, kPaused };
constexpr std::array kAttemptEnds = {"ok", "refused", "failed", "lost", "cancelled", "paused"};
enum Objective : size_t { kTtft, kItl, kBoth };
constexpr std::array kObjectives = {"ttft", "itl", "both"};
const std::vector<std::string> kPairLabels = {"source", "target"};

template <size_t kSize>
std::array<Counter*, kSize> AddCounters(prometheus::Family<Counter>& family, const char* label,
                                        const std::array<const char*, kSize>& values) {
  std::array<Counter*, kSize> counters;
  for (size_t i = 0; i < kSize; ++i) counters[i] = &family.Add({{label, values[i]}});
  return counters;
}

prometheus::Family<Counter>& CounterFamily(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

AttemptEnd EndOfLastAttempt(const RequestRecord& record) {
  switch (record.outcome) {
    case RequestOutcome::kOk:
      return kServed;
    case RequestOutcome::kCancelled:
    case RequestOutcome::kDeadline:
      return kCancelled;
    case RequestOutcome::kRefused:
      return kRefused;
    case RequestOutcome::kUnavailable:
      // A router that ends cuts what runs.
      return GetRefusalReason(record.status) == RefusalReason::kDraining ? kCancelled : kLost;
    case RequestOutcome::kFailed:
      break;
  }
  return kFailed;
}

}  // namespace

RequestMetrics::RequestMetrics(const RequestMetricsOptions& options, prometheus::Registry& registry)
    : options_(options),
      registry_(registry),
      ttft_(AddHistogram("vllm:time_to_first_token_seconds",
                         "Time from a request's arrival at the router until its first token is written.",
                         telemetry::TtftBuckets())),
      itl_(AddHistogram("vllm:inter_token_latency_seconds", "Time between two tokens of a request as they are written.",
                        telemetry::ItlBuckets())),
      end_to_end_(AddHistogram("vllm:e2e_request_latency_seconds",
                               "Time from a request's arrival until its last message is handed to the network.",
                               telemetry::EndToEndBuckets())),
      queue_time_(AddHistogram("vllm:request_queue_time_seconds",
                               "Time from a request's arrival until its prompt is computed: queue and admission.",
                               telemetry::PhaseBuckets())),
      prefill_time_(
          AddHistogram("vllm:request_prefill_time_seconds", "Time in the prefill phase.", telemetry::PhaseBuckets())),
      decode_time_(AddHistogram("vllm:request_decode_time_seconds",
                                "Time from a request's first token to its last: transfer and decode.",
                                telemetry::PhaseBuckets())),
      inference_time_(AddHistogram("vllm:request_inference_time_seconds",
                                   "Time from the beginning of prefill to the last token.", telemetry::PhaseBuckets())),
      request_prompt_tokens_(
          AddHistogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", telemetry::CountBuckets())),
      request_output_tokens_(
          AddHistogram("vllm:request_generation_tokens", "Output tokens of a request.", telemetry::CountBuckets())),
      prompt_tokens_(AddCounter("vllm:prompt_tokens_total", "Prompt tokens of the requests that were served.")),
      output_tokens_(AddCounter("vllm:generation_tokens_total", "Output tokens, counted as they are written.")),
      prefix_queries_(AddCounter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.")),
      prefix_hits_(AddCounter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")),
      other_numerics_(CounterFamily(registry, "baton_requests_other_numerics_total",
                                    "Requests that went on at workers of other numerics, as their clients allow it.")
                          .Add({})),
      pair_bytes_(CounterFamily(registry, "baton_transfer_pair_bytes_total",
                                "KV bytes handed over, by the addresses of both workers, as the reader reported them."),
                  kPairLabels, {.max_sets = kMaxTransferPairs}),
      pair_seconds_(CounterFamily(registry, "baton_transfer_pair_seconds_total",
                                  "Time in which blocks were read, by the addresses of both workers."),
                    kPairLabels, {.max_sets = kMaxTransferPairs}),
      pair_reads_(CounterFamily(registry, "baton_transfer_pair_reads_total",
                                "Prompts handed over, by the addresses of both workers."),
                  kPairLabels, {.max_sets = kMaxTransferPairs}) {
  auto& success = CounterFamily(registry, "vllm:request_success_total", "Requests that ended well.");
  success_stop_ = &success.Add({{"model_name", options.model}, {"finished_reason", "stop"}});
  success_length_ = &success.Add({{"model_name", options.model}, {"finished_reason", "length"}});
  auto& phases = prometheus::BuildHistogram()
                     .Name("baton_phase_seconds")
                     .Help("Time of each phase of the requests that ended well. The phases of a request add up to it.")
                     .Register(registry);
  for (size_t i = 0; i < kPhaseNames.size(); ++i) {
    phases_[i] = &phases.Add({{"phase", kPhaseNames[i]}}, telemetry::PhaseBuckets());
  }
  auto& outcomes = CounterFamily(registry, "baton_requests_total", "Requests, by how they ended for their client.");
  for (const RequestOutcome outcome : kRequestOutcomes) {
    outcomes_[static_cast<size_t>(outcome)] = &outcomes.Add({{"outcome", RequestOutcomeName(outcome)}});
  }
  auto& refusals = CounterFamily(registry, "baton_refusals_total", "Requests that were not served, by the reason.");
  for (const RefusalReason reason : kRefusalReasons) {
    refusals_[static_cast<size_t>(reason)] = &refusals.Add({{"reason", RefusalReasonName(reason)}});
  }
  attempts_ = AddCounters(
      CounterFamily(registry, "baton_attempts_total", "Placements of requests on workers, by how they ended."),
      "outcome", kAttemptEnds);
  within_objective_ = AddCounters(CounterFamily(registry, "baton_requests_within_objective_total",
                                                "Requests that ended well and kept their objective."),
                                  "objective", kObjectives);
  auto& targets = prometheus::BuildGauge()
                      .Name("baton_objective_seconds")
                      .Help("The objectives: --ttft-target-ms, and --itl-target-ms for a request's mean.")
                      .Register(registry);
  targets.Add({{"objective", "ttft"}}).Set(static_cast<double>(options.ttft_target_ms) / 1e3);
  targets.Add({{"objective", "itl"}}).Set(static_cast<double>(options.itl_target_ms) / 1e3);
}

Histogram& RequestMetrics::AddHistogram(const char* name, const char* help, const telemetry::Buckets& buckets) {
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
  return family.Add({{"model_name", options_.model}}, buckets);
}

Counter& RequestMetrics::AddCounter(const char* name, const char* help) {
  return CounterFamily(registry_, name, help).Add({{"model_name", options_.model}});
}

void RequestMetrics::OnRequestEnded(const RequestRecord& record) {
  outcomes_[static_cast<size_t>(record.outcome)]->Increment();
  const bool not_served = record.outcome == RequestOutcome::kRefused || record.outcome == RequestOutcome::kUnavailable;
  if (not_served) refusals_[static_cast<size_t>(GetRefusalReason(record.status))]->Increment();
  if (record.job != nullptr) {
    CountAttempts(record);
    CountTransfer(*record.job);
    if (record.job->other_numerics_from.has_value()) other_numerics_.Increment();
  }
  if (record.outcome != RequestOutcome::kOk) return;
  (record.finish == FinishReason::kStop ? success_stop_ : success_length_)->Increment();
  prompt_tokens_.Increment(record.prompt_tokens);
  request_prompt_tokens_.Observe(record.prompt_tokens);
  request_output_tokens_.Observe(record.output_tokens);
  ObservePhases(record);
  CountObjectives(record);
}

void RequestMetrics::ObservePhases(const RequestRecord& record) {
  const PhaseTimes& phases = record.phases;
  const std::array<int64_t, 6> times_ns = {phases.queue_ns,    phases.admission_ns, phases.prefill_ns,
                                           phases.transfer_ns, phases.decode_ns,    record.network_ns};
  for (size_t i = 0; i < times_ns.size(); ++i) phases_[i]->Observe(Seconds(times_ns[i]));
  end_to_end_.Observe(Seconds(record.total_ns));
  queue_time_.Observe(Seconds(phases.queue_ns + phases.admission_ns));
  prefill_time_.Observe(Seconds(phases.prefill_ns));
  decode_time_.Observe(Seconds(phases.transfer_ns + phases.decode_ns));
  inference_time_.Observe(Seconds(phases.prefill_ns + phases.transfer_ns + phases.decode_ns));
}

// A job that ended in the line or while it was paused has no attempt but these.
void RequestMetrics::CountAttempts(const RequestRecord& record) {
  const JobResult& job = *record.job;
  attempts_[kRefused]->Increment(job.refusals);
  attempts_[kLost]->Increment(job.failovers);
  attempts_[kPaused]->Increment(job.pauses);
  if (job.attempts > job.refusals + job.failovers + job.pauses) attempts_[EndOfLastAttempt(record)]->Increment();
}

void RequestMetrics::CountTransfer(const JobResult& job) {
  prefix_queries_.Increment(job.looked_up_tokens);
  prefix_hits_.Increment(job.cached_tokens);
  if (job.decode.transfer_bytes == 0) return;
  const std::array<std::string_view, 2> pair = {job.prefill_worker, job.decode_worker};
  pair_bytes_.Update(pair, [&](Counter& bytes) { bytes.Increment(static_cast<double>(job.decode.transfer_bytes)); });
  pair_seconds_.Update(pair, [&](Counter& seconds) { seconds.Increment(Seconds(job.decode.read_ns)); });
  pair_reads_.Update(pair, [](Counter& reads) { reads.Increment(); });
}

void RequestMetrics::CountObjectives(const RequestRecord& record) {
  const bool ttft = options_.ttft_target_ms == 0 || record.ttft_ns <= options_.ttft_target_ms * kNsPerMs;
  const bool itl = options_.itl_target_ms == 0 || record.mean_itl_ns <= options_.itl_target_ms * kNsPerMs;
  if (ttft) within_objective_[kTtft]->Increment();
  if (itl) within_objective_[kItl]->Increment();
  if (ttft && itl) within_objective_[kBoth]->Increment();
}

}  // namespace baton::router
