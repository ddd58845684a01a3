#include "telemetry/otel_settings.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status.h"
#include "common/version.h"

namespace baton::telemetry {
namespace {

constexpr int64_t kMaxQueueSpans = int64_t{1} << 20;
constexpr int64_t kMaxWaitMs = 3'600'000;
constexpr size_t kMaxHeaders = 64;
constexpr size_t kMaxResourceAttributes = 128;

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The environment, in which an empty value is as good as none, and the place where warnings go.
class EnvironmentReader {
 public:
  EnvironmentReader(const Environment& environment, std::vector<std::string>& warnings)
      : environment_(environment), warnings_(warnings) {}

  std::string Text(const std::string& name) const { return environment_(name).value_or(""); }
  std::string Word(const std::string& name) const { return Lower(Text(name)); }

  // Names the variable of the exporter that is set, first the one for traces. Empty: neither is.
  std::string ExporterVariable(const std::string& suffix) const {
    for (const char* prefix : {"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"}) {
      if (!Text(prefix + suffix).empty()) return prefix + suffix;
    }
    return {};
  }

  bool Flag(const std::string& name) {
    const std::string word = Word(name);
    if (!word.empty() && word != "true" && word != "false") Warn(name, "is neither true nor false; false applies");
    return word == "true";
  }

  // A number in [min, max], or `fallback` with a warning.
  int64_t Number(const std::string& name, int64_t fallback, int64_t min, int64_t max) {
    const std::string text = name.empty() ? "" : Text(name);
    int64_t value = 0;
    if (text.empty()) return fallback;
    if (absl::SimpleAtoi(text, &value) && value >= min && value <= max) return value;
    Warn(name, absl::StrCat("is no number between ", min, " and ", max, "; ", fallback, " applies"));
    return fallback;
  }

  // A duration; the specification has 0 mean no limit.
  int64_t TimeoutMs(const std::string& name, int64_t fallback) {
    const int64_t value_ms = Number(name, fallback, 0, kMaxWaitMs);
    return value_ms == 0 ? kMaxWaitMs : value_ms;
  }

  void Warn(const std::string& name, std::string_view what) {
    warnings_.push_back(absl::StrCat(name, " ", ToAbsl(what)));
  }
  std::vector<std::string>& warnings() { return warnings_; }

 private:
  static std::string Lower(const std::string& text) { return absl::AsciiStrToLower(absl::StripAsciiWhitespace(text)); }

  const Environment& environment_;
  std::vector<std::string>& warnings_;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::optional<std::string> PercentDecode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return decoded;
}

// One key=value of a list, both percent-decoded. nullopt when it is none.
std::optional<std::pair<std::string, std::string>> ReadPair(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) return std::nullopt;
  std::optional<std::string> key = PercentDecode(absl::StripAsciiWhitespace(text.substr(0, equals)));
  std::optional<std::string> value = PercentDecode(absl::StripAsciiWhitespace(text.substr(equals + 1)));
  if (!key.has_value() || key->empty() || !value.has_value()) return std::nullopt;
  return std::make_pair(*std::move(key), *std::move(value));
}

// A name that both gRPC and HTTP can send, and that belongs to neither.
bool IsHeaderName(const std::string& name) {
  const auto is_name_char = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) || absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           c == '-' || c == '_' || c == '.';
  };
  constexpr std::string_view kOwn[] = {"host",       "content-type", "content-length",    "content-encoding",
                                       "connection", "te",           "transfer-encoding", "user-agent"};
  return std::all_of(name.begin(), name.end(), is_name_char) && !absl::StartsWith(name, "grpc-") &&
         std::find(std::begin(kOwn), std::end(kOwn), name) == std::end(kOwn);
}

bool IsHeaderValue(const std::string& value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Warnings name a header and never show its value, which may be a secret.
Pairs ReadHeaders(EnvironmentReader& reader) {
  const std::string variable = reader.ExporterVariable("HEADERS");
  Pairs headers;
  if (variable.empty()) return headers;
  const std::string list = reader.Text(variable);
  size_t position = 0;
  for (const absl::string_view member : absl::StrSplit(list, ',')) {
    ++position;
    if (absl::StripAsciiWhitespace(member).empty()) continue;
    std::optional<std::pair<std::string, std::string>> pair = ReadPair(member);
    if (pair.has_value()) absl::AsciiStrToLower(&pair->first);
    if (!pair.has_value() || !IsHeaderName(pair->first) || !IsHeaderValue(pair->second)) {
      reader.Warn(variable, absl::StrCat("has no usable name=value at position ", position, ", which is left out"));
    } else if (headers.size() == kMaxHeaders) {
      reader.Warn(variable, absl::StrCat("has more than ", kMaxHeaders, " headers; further ones are left out"));
      break;
    } else {
      headers.push_back(*std::move(pair));
    }
  }
  return headers;
}

void SetAttribute(Pairs& attributes, const std::string& key, const std::string& value) {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == key; });
  if (found != attributes.end()) {
    found->second = value;
  } else if (attributes.size() < kMaxResourceAttributes) {
    attributes.emplace_back(key, value);
  }
}

Pairs ReadResource(EnvironmentReader& reader, const OtelDefaults& defaults) {
  constexpr char kVariable[] = "OTEL_RESOURCE_ATTRIBUTES";
  Pairs resource = {{"service.name", defaults.service_name},
                    {"telemetry.sdk.name", "baton"},
                    {"telemetry.sdk.language", "cpp"},
                    {"telemetry.sdk.version", kVersion}};
  for (const auto& [key, value] : defaults.resource) SetAttribute(resource, key, value);
  Pairs more;
  bool is_valid = true;
  const std::string list = reader.Text(kVariable);
  for (const absl::string_view member : absl::StrSplit(list, ',')) {
    if (absl::StripAsciiWhitespace(member).empty()) continue;
    const std::optional<std::pair<std::string, std::string>> pair = ReadPair(member);
    is_valid = is_valid && pair.has_value();
    if (is_valid) more.push_back(*pair);
  }
  if (is_valid) {
    for (const auto& [key, value] : more) SetAttribute(resource, key, value);
  } else {
    reader.Warn(kVariable, "is no list key=value,... with percent-encoded values; all of it is left out");
  }
  if (const std::string name = reader.Text("OTEL_SERVICE_NAME"); !name.empty()) {
    SetAttribute(resource, "service.name", name);
  }
  return resource;
}

OtlpProtocol ReadProtocol(EnvironmentReader& reader) {
  const std::string variable = reader.ExporterVariable("PROTOCOL");
  const std::string protocol = variable.empty() ? "grpc" : reader.Word(variable);
  if (protocol == "http/protobuf") return OtlpProtocol::kHttpProtobuf;
  if (protocol != "grpc") reader.Warn(variable, "is neither grpc nor http/protobuf; grpc applies");
  return OtlpProtocol::kGrpc;
}

bool ReadGzip(EnvironmentReader& reader) {
  const std::string variable = reader.ExporterVariable("COMPRESSION");
  const std::string name = variable.empty() ? "none" : reader.Word(variable);
  if (name != "none" && name != "gzip") reader.Warn(variable, "is neither none nor gzip; none applies");
  return name == "gzip";
}

// False: there is no usable endpoint.
bool ReadEndpoint(EnvironmentReader& reader, OtlpSettings& otlp) {
  const std::string variable = reader.ExporterVariable("ENDPOINT");
  if (variable.empty()) return false;
  const std::string insecure = reader.ExporterVariable("INSECURE");
  const bool is_insecure = !insecure.empty() && reader.Flag(insecure);
  const std::string url = reader.Text(variable);
  const std::optional<OtlpEndpoint> endpoint = ParseOtlpEndpoint(
      url,
      {.protocol = otlp.protocol, .is_base = variable == "OTEL_EXPORTER_OTLP_ENDPOINT", .is_insecure = is_insecure});
  if (!endpoint.has_value()) {
    reader.Warn(variable, otlp.protocol == OtlpProtocol::kGrpc
                              ? "is no URL such as http://collector:4317; no spans are exported"
                              : "is no URL such as http://collector:4318; no spans are exported");
    return false;
  }
  if (otlp.protocol == OtlpProtocol::kGrpc && endpoint->tls && !absl::StrContains(url, "://")) {
    reader.Warn(variable, "has no scheme, so TLS is used; begin it with http:// to do without");
  }
  otlp.endpoint = *endpoint;
  return true;
}

BatchSettings ReadBatch(EnvironmentReader& reader) {
  BatchSettings batch;
  const int64_t queue =
      reader.Number("OTEL_BSP_MAX_QUEUE_SIZE", static_cast<int64_t>(batch.max_queue_spans), 1, kMaxQueueSpans);
  const int64_t fallback = std::min(queue, static_cast<int64_t>(batch.max_batch_spans));
  batch.max_queue_spans = static_cast<size_t>(queue);
  batch.max_batch_spans = static_cast<size_t>(reader.Number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", fallback, 1, queue));
  batch.schedule_delay_ms = reader.Number("OTEL_BSP_SCHEDULE_DELAY", batch.schedule_delay_ms, 0, kMaxWaitMs);
  batch.export_timeout_ms = reader.TimeoutMs("OTEL_BSP_EXPORT_TIMEOUT", batch.export_timeout_ms);
  return batch;
}

bool IsSwitchedOff(EnvironmentReader& reader) {
  const std::string exporter = reader.Word("OTEL_TRACES_EXPORTER");
  if (!exporter.empty() && exporter != "otlp" && exporter != "none") {
    reader.Warn("OTEL_TRACES_EXPORTER", "is neither otlp nor none; otlp applies");
  }
  return reader.Flag("OTEL_SDK_DISABLED") || exporter == "none";
}

size_t ReadMaxAttributeBytes(EnvironmentReader& reader, size_t fallback) {
  const bool is_for_spans = !reader.Text("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT").empty();
  const char* variable = is_for_spans ? "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" : "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT";
  return static_cast<size_t>(
      reader.Number(variable, static_cast<int64_t>(fallback), 1, std::numeric_limits<int32_t>::max()));
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

OtelSettings ReadOtelSettings(const Environment& environment, const OtelDefaults& defaults,
                              std::vector<std::string>& warnings) {
  EnvironmentReader reader(environment, warnings);
  OtelSettings settings;
  // What is switched off is not read, so nothing is said of it.
  if (IsSwitchedOff(reader)) return settings;
  settings.otlp.protocol = ReadProtocol(reader);
  settings.enabled = ReadEndpoint(reader, settings.otlp);
  if (!settings.enabled) return settings;
  settings.otlp.headers = ReadHeaders(reader);
  settings.otlp.timeout_ms = reader.TimeoutMs(reader.ExporterVariable("TIMEOUT"), settings.otlp.timeout_ms);
  settings.otlp.gzip = ReadGzip(reader);
  if (const std::string variable = reader.ExporterVariable("CERTIFICATE"); !variable.empty()) {
    settings.otlp.certificate_file = reader.Text(variable);
  }
  settings.batch = ReadBatch(reader);
  settings.sampler =
      Sampler::FromNames(reader.Word("OTEL_TRACES_SAMPLER"), reader.Text("OTEL_TRACES_SAMPLER_ARG"), warnings);
  settings.resource = ReadResource(reader, defaults);
  settings.max_attribute_bytes = ReadMaxAttributeBytes(reader, settings.max_attribute_bytes);
  return settings;
}

}  // namespace baton::telemetry
