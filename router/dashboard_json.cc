#include "router/dashboard_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace baton::router {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kUsualRequestBytes = 640;

// To a microsecond, or to a thousandth of what else is measured: more digits would say nothing.
double Rounded(double value) { return std::isfinite(value) ? std::round(value * 1e3) / 1e3 : 0; }

Json Rounded(const std::optional<double>& value) { return value ? Json(Rounded(*value)) : Json(nullptr); }

Json Text(std::string_view text) { return CutText(text); }

Json ToJson(const Quantiles& quantiles) { return {{"p50", Rounded(quantiles.p50)}, {"p99", Rounded(quantiles.p99)}}; }

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Appends the members of one object to a text. A tree of values takes eight times as many instructions, and each
// request that ends pays for it.
class ObjectText {
 public:
  explicit ObjectText(std::string& out) : out_(out) {}

  void Add(std::string_view name, std::string_view text) {
    Begin(name);
    text = CutText(text);
    const bool is_plain =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    if (is_plain) {
      out_.append(1, '"').append(text).append(1, '"');
    } else {
      out_ += Dump(Json(text));
    }
  }
  void Add(std::string_view name, int64_t value) {
    Begin(name);
    absl::StrAppend(&out_, value);
  }
  void Add(std::string_view name, const std::optional<double>& value) {
    Begin(name);
    if (value) {
      Append(*value);
    } else {
      out_ += "null";
    }
  }
  template <size_t kCount>
  void Add(std::string_view name, const std::array<double, kCount>& values) {
    Begin(name);
    for (size_t i = 0; i < kCount; ++i) {
      out_ += i == 0 ? '[' : ',';
      Append(values[i]);
    }
    out_ += ']';
  }
  void End() { out_ += '}'; }

 private:
  void Begin(std::string_view name) {
    out_.append(1, is_empty_ ? '{' : ',').append(1, '"').append(name).append("\":");
    is_empty_ = false;
  }
  void Append(double value) {
    std::array<char, 32> digits;
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), Rounded(value));
    out_.append(digits.data(), end);
  }

  std::string& out_;
  bool is_empty_ = true;
};

Json HeadlineJson(const SnapshotFacts& facts) {
  const WindowSummary& window = facts.window;
  return {{"window_s", Rounded(window.window_s)},
          {"requests", window.requests},
          {"failed", window.failed},
          {"ttft_ms", ToJson(window.ttft_ms)},
          {"itl_ms", ToJson(window.itl_ms)},
          {"e2e_ms", ToJson(window.e2e_ms)},
          {"goodput", window.goodput ? Json(*window.goodput) : Json(nullptr)},
          {"ttft_target_ms", facts.objective.ttft_ms},
          {"itl_target_ms", facts.objective.itl_ms},
          {"output_tokens_per_s", Rounded(facts.rates.output_tokens_per_s)},
          {"prompt_tokens_per_s", Rounded(facts.rates.prompt_tokens_per_s)},
          {"running", facts.view.running},
          {"waiting", facts.view.waiting}};
}

Json PhasesJson(const PhaseMeans& phases) {
  if (phases.ended == 0) return nullptr;
  static constexpr std::array<const char*, kPhases> kNames = {"queue",    "admission", "prefill",
                                                              "transfer", "decode",    "network"};
  Json json = Json::object();
  for (size_t i = 0; i < kPhases; ++i) json[kNames[i]] = Rounded(phases.ms[i]);
  return json;
}

Json WorkerJson(const DashboardWorker& worker, const std::optional<double>& steps_per_s) {
  return {{"id", Text(worker.id)},
          {"pid", worker.pid},
          {"role", Text(worker.role)},
          {"address", Text(worker.address)},
          {"admin", Text(worker.admin)},
          {"state", Text(worker.state)},
          {"group", Text(worker.group)},
          {"running", worker.running},
          {"used_blocks", worker.used_blocks},
          {"free_blocks", worker.free_blocks},
          {"cached_blocks", worker.cached_blocks},
          {"total_blocks", worker.total_blocks},
          {"pending_prompt_tokens", worker.pending_prompt_tokens},
          {"step_age_ms", Rounded(worker.step_age_ms)},
          {"steps_per_s", Rounded(steps_per_s)}};
}

Json TransferJson(const TransferPair& pair) {
  return {{"source", Text(pair.source)},
          {"target", Text(pair.target)},
          {"bytes", pair.bytes},
          {"seconds", std::isfinite(pair.seconds) ? pair.seconds : 0},
          {"reads", pair.reads}};
}

Json CostJson(const CostView& cost, const SnapshotRates& rates) {
  // Cores are small numbers, so they keep their digits.
  return {{"cpu_cores", rates.cpu_cores},
          {"telemetry_cpu_cores", rates.telemetry_cpu_cores},
          {"rss_bytes", cost.rss_bytes},
          {"viewers", cost.viewers},
          {"bytes_per_s", Rounded(rates.event_bytes_per_s)}};
}

}  // namespace

std::string_view CutText(std::string_view text) {
  if (text.size() <= kMaxDashboardTextBytes) return text;
  size_t end = kMaxDashboardTextBytes;
  // The bytes of a character but for the first begin with the bits 10.
  while (end > kMaxDashboardTextBytes - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

std::string RequestJson(const EndedRequest& request) {
  std::string json;
  json.reserve(kUsualRequestBytes);
  ObjectText object(json);
  object.Add("id", request.id);
  object.Add("trace_id", request.trace_id);
  object.Add("end_ms", request.end_unix_ms);
  object.Add("outcome", RequestOutcomeName(request.outcome));
  object.Add("finish", request.finish);
  object.Add("error", request.error);
  object.Add("prompt_tokens", request.prompt_tokens);
  object.Add("output_tokens", request.output_tokens);
  object.Add("cached_tokens", request.cached_tokens);
  object.Add("attempts", int64_t{request.attempts});
  object.Add("prefill_worker", request.prefill_worker);
  object.Add("decode_worker", request.decode_worker);
  object.Add("ttft_ms", request.ttft_ms);
  object.Add("itl_ms", request.itl_ms);
  object.Add("total_ms", std::optional<double>(request.total_ms));
  object.Add("phases_ms", request.phases_ms);
  object.Add("transfer_bytes", request.transfer_bytes);
  object.End();
  return json;
}

std::string SnapshotJson(const SnapshotFacts& facts, bool whole) {
  const ClusterView& view = facts.view;
  Json json = {{"t_ms", view.unix_ms},
               {"uptime_s", Rounded(facts.uptime_s)},
               {"version", Text(facts.version)},
               {"model", Text(facts.model)},
               {"serving", view.serving},
               {"waits_for", Text(view.waits_for)},
               {"totals",
                {{"requests", facts.totals.requests},
                 {"ok", facts.totals.ok},
                 {"failed", facts.totals.failed},
                 {"prompt_tokens", view.prompt_tokens},
                 {"output_tokens", view.output_tokens}}},
               {"headline", HeadlineJson(facts)},
               {"phases_ms", PhasesJson(facts.phases)},
               {"ended", facts.phases.ended},
               {"cost", CostJson(view.cost, facts.rates)}};
  if (whole) {
    Json workers = Json::array(), transfers = Json::array();
    for (size_t i = 0; i < view.workers.size(); ++i) {
      workers.push_back(WorkerJson(view.workers[i], facts.rates.steps_per_s[i]));
    }
    for (const TransferPair& pair : view.transfers) transfers.push_back(TransferJson(pair));
    json["workers"] = std::move(workers);
    json["transfers"] = std::move(transfers);
  }
  return Dump(json);
}

}  // namespace baton::router
