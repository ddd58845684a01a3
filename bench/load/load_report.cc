#include "bench/load/load_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace baton::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kShownErrors = 5;

void AddDistribution(const std::string& name, const Distribution& of, OrderedJson& json) {
  const auto add = [&](const char* statistic, double value) {
    json[absl::StrCat(statistic, "_", name)] = of.count > 0 ? OrderedJson(value) : OrderedJson();
  };
  add("mean", of.mean);
  add("median", of.median);
  add("std", of.std);
  add("p90", of.p90);
  add("p99", of.p99);
  add("max", of.max);
}

OrderedJson ClusterJson(const std::optional<ClusterShape>& cluster) {
  if (!cluster.has_value()) return {};
  return {{"prefill", cluster->prefill}, {"decode", cluster->decode}, {"mixed", cluster->mixed}};
}

// Empty for a completed request.
std::string ErrorText(const RequestRecord& record) {
  if (record.was_cut) return "cut: the run was interrupted";
  if (!record.status.ok()) return std::string(record.status.message());
  return record.outputs.empty() ? "the stream ended without output" : "";
}

void AddRecords(absl::Span<const RequestRecord> records, OrderedJson& json) {
  for (const char* key : {"input_lens", "output_lens", "start_times_ms", "ttfts", "itls", "e2els", "errors"}) {
    json[key] = OrderedJson::array();
  }
  if (records.empty()) return;
  const TimeNs begin = std::min_element(records.begin(), records.end(), [](const auto& a, const auto& b) {
                         return a.start < b.start;
                       })->start;
  for (const RequestRecord& record : records) {
    json["input_lens"].push_back(record.prompt_tokens);
    json["output_lens"].push_back(record.output_tokens);
    json["start_times_ms"].push_back(NsToMs(record.start - begin));
    json["ttfts"].push_back(record.outputs.empty() ? 0 : NsToMs(record.outputs.front() - record.start) / 1e3);
    OrderedJson gaps = OrderedJson::array();
    for (size_t i = 1; i < record.outputs.size(); ++i) {
      gaps.push_back(NsToMs(record.outputs[i] - record.outputs[i - 1]) / 1e3);
    }
    json["itls"].push_back(std::move(gaps));
    json["e2els"].push_back(NsToMs(record.end - record.start) / 1e3);
    json["errors"].push_back(ErrorText(record));
  }
}

std::string Row(const char* name, const char* meaning, const Distribution& of) {
  if (of.count == 0) return absl::StrFormat("  %-5s%-22s%10s\n", name, meaning, "none");
  return absl::StrFormat("  %-5s%-22s%10.2f %10.2f %10.2f %10.2f %10.2f\n", name, meaning, of.mean, of.median, of.p90,
                         of.p99, of.max);
}

std::string LatencyRows(const LoadSummary& summary) {
  return absl::StrCat(
      absl::StrFormat("\n  %-27s%10s %10s %10s %10s %10s\n", "latency, ms", "mean", "P50", "P90", "P99", "max"),
      Row("TTFT", "to the first token", summary.ttft_ms), Row("TPOT", "per token after it", summary.tpot_ms),
      Row("ITL", "between tokens", summary.itl_ms), Row("E2EL", "whole request", summary.e2el_ms));
}

std::string GoodputLine(const Slo& slo, const LoadSummary& summary) {
  std::vector<std::string> bounds;
  if (slo.ttft_ms > 0) {
    bounds.push_back(absl::StrFormat("TTFT <= %g ms: %.1f %%", slo.ttft_ms, 100 * summary.ttft_attainment));
  }
  if (slo.tpot_ms > 0) {
    bounds.push_back(absl::StrFormat("TPOT <= %g ms: %.1f %%", slo.tpot_ms, 100 * summary.tpot_attainment));
  }
  if (bounds.empty()) return "";
  return absl::StrFormat("  goodput     %.2f requests/s, by the %.1f %% that met the SLO (%s)\n",
                         summary.request_goodput, 100 * summary.slo_attainment, absl::StrJoin(bounds, ", "));
}

std::string RequestsLine(const LoadSetting& setting, const LoadSummary& summary) {
  std::string line = absl::StrFormat("  requests    %d completed, %d failed", summary.completed, summary.failed);
  if (setting.is_interrupted) {
    absl::StrAppendFormat(&line, ", %d cut, %d not sent", summary.cut,
                          setting.num_prompts - summary.completed - summary.failed - summary.cut);
  }
  return absl::StrCat(
      line, absl::StrFormat(" in %.2f s; at most %d in flight\n", summary.duration_s, summary.max_concurrent_requests));
}

std::string ErrorRows(absl::Span<const RequestRecord> records) {
  const std::vector<ErrorCount> errors = CountErrors(records);
  if (errors.empty()) return "";
  std::string text = "\n  errors\n";
  int others = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (i < kShownErrors) absl::StrAppendFormat(&text, "  %6d x %s\n", errors[i].count, errors[i].text);
    if (i >= kShownErrors) others += errors[i].count;
  }
  if (others > 0) absl::StrAppendFormat(&text, "  %6d x other errors; --json names them all\n", others);
  return text;
}

}  // namespace

std::vector<ErrorCount> CountErrors(absl::Span<const RequestRecord> records) {
  std::map<std::string, int> counts;
  for (const RequestRecord& record : records) {
    if (record.was_cut) continue;
    std::string text = ErrorText(record);
    if (text.empty()) continue;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char letter) { return letter < ' '; }, ' ');
    ++counts[text];
  }
  std::vector<ErrorCount> errors;
  errors.reserve(counts.size());
  for (const auto& [text, count] : counts) errors.push_back({text, count});
  std::stable_sort(errors.begin(), errors.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return errors;
}

OrderedJson LoadJson(const LoadSetting& setting, const LoadSummary& summary, absl::Span<const RequestRecord> records,
                     bool with_records) {
  OrderedJson json = {
      {"date", absl::FormatTime("%Y%m%d-%H%M%S", setting.date, absl::UTCTimeZone())},
      {"backend", setting.backend},
      {"target", setting.target},
      {"model_id", setting.model},
      {"cluster", ClusterJson(setting.cluster)},
      {"num_prompts", setting.num_prompts},
      {"prompt_tokens", {setting.prompt_tokens.min, setting.prompt_tokens.max}},
      {"output_tokens", {setting.output_tokens.min, setting.output_tokens.max}},
      {"grammar", setting.grammar.empty() ? OrderedJson() : OrderedJson(setting.grammar)},
      {"trace", setting.trace.empty() ? OrderedJson() : OrderedJson(setting.trace)},
      {"warmup", setting.warmup},
      {"timeout_ms", setting.timeout_ms},
      {"request_rate", setting.request_rate > 0 ? OrderedJson(setting.request_rate) : OrderedJson("inf")},
      {"max_concurrency", setting.max_concurrency},
      {"seed", setting.seed},
      {"slo_ttft_ms", setting.slo.ttft_ms},
      {"slo_tpot_ms", setting.slo.tpot_ms},
      {"duration", summary.duration_s},
      {"completed", summary.completed},
      {"failed", summary.failed},
      {"interrupted", setting.is_interrupted},
      {"cut", summary.cut},
      {"not_sent", setting.num_prompts - summary.completed - summary.failed - summary.cut},
      {"total_input_tokens", summary.total_input_tokens},
      {"total_output_tokens", summary.total_output_tokens},
      {"request_throughput", summary.request_throughput},
      {"request_goodput", summary.request_goodput},
      {"slo_attainment", summary.slo_attainment},
      {"slo_ttft_attainment", summary.ttft_attainment},
      {"slo_tpot_attainment", summary.tpot_attainment},
      {"output_throughput", summary.output_throughput},
      {"total_token_throughput", summary.total_token_throughput},
      {"max_concurrent_requests", summary.max_concurrent_requests},
      {"generator_cores", setting.generator_cores}};
  AddDistribution("ttft_ms", summary.ttft_ms, json);
  AddDistribution("tpot_ms", summary.tpot_ms, json);
  AddDistribution("itl_ms", summary.itl_ms, json);
  AddDistribution("e2el_ms", summary.e2el_ms, json);
  json["error_counts"] = OrderedJson::array();
  for (const ErrorCount& error : CountErrors(records)) {
    json["error_counts"].push_back({{"error", error.text}, {"count", error.count}});
  }
  if (with_records) AddRecords(records, json);
  return json;
}

std::string LoadTable(const LoadSetting& setting, const LoadSummary& summary, absl::Span<const RequestRecord> records) {
  std::string text = absl::StrFormat(
      "%s, %s, %s\n%s\n%s\n%s", setting.model, DescribeServer(setting), DescribeDate(setting), DescribeLoad(setting),
      setting.is_interrupted ? "INTERRUPTED: the figures are those of the requests that had ended\n" : "",
      RequestsLine(setting, summary));
  if (summary.completed > 0) {
    absl::StrAppendFormat(&text, "  throughput  %.2f requests/s, %.1f output tokens/s, %.1f tokens/s with prompts\n",
                          summary.request_throughput, summary.output_throughput, summary.total_token_throughput);
    absl::StrAppend(&text, GoodputLine(setting.slo, summary),
                    absl::StrFormat("  generator   %.2f cores\n", setting.generator_cores), LatencyRows(summary));
  }
  return absl::StrCat(text, ErrorRows(records));
}

}  // namespace baton::bench
