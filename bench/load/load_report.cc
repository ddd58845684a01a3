#include "bench/load/load_report.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

void AddDistribution(const std::string& name, const Distribution& of, OrderedJson& json) {
  json["mean_" + name] = of.mean;
  json["median_" + name] = of.median;
  json["std_" + name] = of.std;
  json["p90_" + name] = of.p90;
  json["p99_" + name] = of.p99;
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
    json["errors"].push_back(std::string(record.status.message()));
  }
}

std::string Line(const char* name, const Distribution& of) {
  return absl::StrFormat("  %-10s %10.2f %10.2f %10.2f %10.2f\n", name, of.mean, of.median, of.p90, of.p99);
}

}  // namespace

OrderedJson LoadJson(const LoadSetting& setting, const LoadSummary& summary, absl::Span<const RequestRecord> records,
                     bool with_records) {
  OrderedJson json = {
      {"backend", setting.backend},
      {"target", setting.target},
      {"model_id", setting.model},
      {"num_prompts", setting.num_prompts},
      {"request_rate", setting.request_rate > 0 ? OrderedJson(setting.request_rate) : OrderedJson("inf")},
      {"max_concurrency", setting.max_concurrency},
      {"seed", setting.seed},
      {"slo_ttft_ms", setting.slo.ttft_ms},
      {"slo_tpot_ms", setting.slo.tpot_ms},
      {"duration", summary.duration_s},
      {"completed", summary.completed},
      {"failed", summary.failed},
      {"total_input_tokens", summary.total_input_tokens},
      {"total_output_tokens", summary.total_output_tokens},
      {"request_throughput", summary.request_throughput},
      {"request_goodput", summary.request_goodput},
      {"slo_attainment", summary.slo_attainment},
      {"output_throughput", summary.output_throughput},
      {"total_token_throughput", summary.total_token_throughput},
      {"max_concurrent_requests", summary.max_concurrent_requests},
      {"generator_cores", setting.generator_cores}};
  AddDistribution("ttft_ms", summary.ttft_ms, json);
  AddDistribution("tpot_ms", summary.tpot_ms, json);
  AddDistribution("itl_ms", summary.itl_ms, json);
  AddDistribution("e2el_ms", summary.e2el_ms, json);
  if (with_records) AddRecords(records, json);
  return json;
}

std::string LoadTable(const LoadSetting& setting, const LoadSummary& summary) {
  std::string text =
      absl::StrFormat("%s at %s, model %s, seed %d\n", setting.backend, setting.target, setting.model, setting.seed);
  absl::StrAppendFormat(&text, "  %d completed, %d failed in %.2f s, at most %d at once\n", summary.completed,
                        summary.failed, summary.duration_s, summary.max_concurrent_requests);
  absl::StrAppendFormat(&text, "  %.2f requests/s, %.1f output tokens/s, %.1f tokens/s in all\n",
                        summary.request_throughput, summary.output_throughput, summary.total_token_throughput);
  if (setting.slo.ttft_ms > 0 || setting.slo.tpot_ms > 0) {
    absl::StrAppendFormat(&text, "  goodput %.2f requests/s: %.1f %% met TTFT %.0f ms, TPOT %.0f ms (0: no bound)\n",
                          summary.request_goodput, 100 * summary.slo_attainment, setting.slo.ttft_ms,
                          setting.slo.tpot_ms);
  }
  absl::StrAppendFormat(&text, "  %-10s %10s %10s %10s %10s\n", "ms", "mean", "median", "p90", "p99");
  return absl::StrCat(text, Line("TTFT", summary.ttft_ms), Line("TPOT", summary.tpot_ms), Line("ITL", summary.itl_ms),
                      Line("E2EL", summary.e2el_ms),
                      absl::StrFormat("  the generator itself took %.2f cores\n", setting.generator_cores));
}

std::string ErrorLines(absl::Span<const RequestRecord> records, int limit) {
  std::map<std::string, int> counts;
  for (const RequestRecord& record : records) {
    if (!record.status.ok()) {
      ++counts[std::string(record.status.message())];
    } else if (record.outputs.empty()) {
      ++counts["the stream ended without output"];
    }
  }
  std::vector<std::pair<int, std::string>> lines;
  lines.reserve(counts.size());
  for (const auto& [text, count] : counts) lines.emplace_back(count, text);
  std::sort(lines.rbegin(), lines.rend());
  std::string out;
  for (const auto& [count, text] : lines) {
    if (limit-- == 0) break;
    absl::StrAppend(&out, count, " x ", text, "\n");
  }
  return out;
}

}  // namespace baton::bench
