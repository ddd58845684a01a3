#include "bench/load/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/check.h"

namespace baton::bench {
namespace {

double TtftMs(const RequestRecord& record) { return NsToMs(record.outputs.front() - record.start); }
double E2elMs(const RequestRecord& record) { return NsToMs(record.end - record.start); }
bool HasTpot(const RequestRecord& record) { return record.output_tokens > 1; }
double TpotMs(const RequestRecord& record) { return (E2elMs(record) - TtftMs(record)) / (record.output_tokens - 1); }

bool MeetsTtft(const RequestRecord& record, const Slo& slo) {
  return slo.ttft_ms <= 0 || TtftMs(record) <= slo.ttft_ms;
}

bool MeetsTpot(const RequestRecord& record, const Slo& slo) {
  return slo.tpot_ms <= 0 || !HasTpot(record) || TpotMs(record) <= slo.tpot_ms;
}

// A stream that ended well but had no output has no latencies.
bool IsCompleted(const RequestRecord& record) {
  return !record.was_cut && record.status.ok() && !record.outputs.empty();
}

int MaxConcurrent(absl::Span<const RequestRecord> records) {
  std::vector<std::pair<TimeNs, int>> changes;
  for (const RequestRecord& record : records) {
    changes.emplace_back(record.start, 1);
    changes.emplace_back(record.end, -1);
  }
  // Ends sort before starts of the same time.
  std::sort(changes.begin(), changes.end());
  int now = 0;
  int most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

double DurationSeconds(absl::Span<const RequestRecord> records) {
  TimeNs first = kNever;
  TimeNs last = 0;
  for (const RequestRecord& record : records) {
    if (record.was_cut) continue;
    first = std::min(first, record.start);
    last = std::max(last, record.end);
  }
  return first == kNever ? 0 : static_cast<double>(last - first) / kNsPerSecond;
}

}  // namespace

double Percentile(absl::Span<const double> sorted, double percent) {
  BATON_CHECK(!sorted.empty());
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

Distribution Describe(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  return {.count = values.size(),
          .mean = mean,
          .median = Percentile(values, 50),
          .std = std::sqrt(squares / count),
          .p90 = Percentile(values, 90),
          .p99 = Percentile(values, 99),
          .max = values.back()};
}

Latencies LatenciesOf(absl::Span<const RequestRecord> records) {
  Latencies latencies;
  for (const RequestRecord& record : records) {
    if (!IsCompleted(record)) continue;
    latencies.ttft_ms.push_back(TtftMs(record));
    latencies.e2el_ms.push_back(E2elMs(record));
    if (HasTpot(record)) latencies.tpot_ms.push_back(TpotMs(record));
    for (size_t i = 1; i < record.outputs.size(); ++i) {
      latencies.itl_ms.push_back(NsToMs(record.outputs[i] - record.outputs[i - 1]));
    }
  }
  return latencies;
}

LoadSummary Summarize(absl::Span<const RequestRecord> records, const Slo& slo) {
  LoadSummary summary;
  int good = 0;
  int good_ttft = 0;
  int good_tpot = 0;
  for (const RequestRecord& record : records) {
    if (record.was_cut) ++summary.cut;
    if (!IsCompleted(record)) continue;
    ++summary.completed;
    summary.total_input_tokens += record.prompt_tokens;
    summary.total_output_tokens += record.output_tokens;
    const bool meets_ttft = MeetsTtft(record, slo);
    const bool meets_tpot = MeetsTpot(record, slo);
    good_ttft += meets_ttft ? 1 : 0;
    good_tpot += meets_tpot ? 1 : 0;
    good += meets_ttft && meets_tpot ? 1 : 0;
  }
  const int ended = static_cast<int>(records.size()) - summary.cut;
  summary.failed = ended - summary.completed;
  summary.duration_s = DurationSeconds(records);
  summary.max_concurrent_requests = MaxConcurrent(records);
  if (summary.duration_s > 0) {
    const double output = static_cast<double>(summary.total_output_tokens);
    summary.request_throughput = summary.completed / summary.duration_s;
    summary.request_goodput = good / summary.duration_s;
    summary.output_throughput = output / summary.duration_s;
    summary.total_token_throughput = (output + static_cast<double>(summary.total_input_tokens)) / summary.duration_s;
  }
  if (ended > 0) {
    summary.slo_attainment = static_cast<double>(good) / ended;
    summary.ttft_attainment = static_cast<double>(good_ttft) / ended;
    summary.tpot_attainment = static_cast<double>(good_tpot) / ended;
  }
  Latencies latencies = LatenciesOf(records);
  summary.ttft_ms = Describe(std::move(latencies.ttft_ms));
  summary.tpot_ms = Describe(std::move(latencies.tpot_ms));
  summary.itl_ms = Describe(std::move(latencies.itl_ms));
  summary.e2el_ms = Describe(std::move(latencies.e2el_ms));
  return summary;
}

}  // namespace baton::bench
