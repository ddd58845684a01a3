#include "telemetry/otlp_endpoint.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status.h"

namespace baton::telemetry {
namespace {

constexpr int kGrpcPort = 4317;
constexpr int kHttpPort = 80;
constexpr int kHttpsPort = 443;
constexpr char kTracesPath[] = "v1/traces";

// "http://", "https://" or nothing, taken off `url`. nullopt: another scheme.
std::optional<absl::string_view> TakeScheme(absl::string_view& url) {
  const size_t end = url.find("://");
  if (end == absl::string_view::npos) return absl::string_view();
  const absl::string_view scheme = url.substr(0, end);
  url.remove_prefix(end + 3);
  if (absl::EqualsIgnoreCase(scheme, "http")) return "http";
  if (absl::EqualsIgnoreCase(scheme, "https")) return "https";
  return std::nullopt;
}

// host, host:port, [v6] or [v6]:port into `endpoint`, whose port keeps its value where none is named.
bool ReadAuthority(absl::string_view authority, OtlpEndpoint& endpoint) {
  absl::string_view rest;
  if (absl::ConsumePrefix(&authority, "[")) {
    const size_t end = authority.find(']');
    if (end == absl::string_view::npos) return false;
    endpoint.host = std::string(authority.substr(0, end));
    rest = authority.substr(end + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    endpoint.host = std::string(authority.substr(0, colon));
    rest = authority.substr(colon);
  }
  const auto is_host_char = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(".-_:%", absl::string_view(&c, 1));
  };
  if (endpoint.host.empty() || !std::all_of(endpoint.host.begin(), endpoint.host.end(), is_host_char)) return false;
  if (rest.empty()) return true;
  return absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &endpoint.port) && endpoint.port > 0 &&
         endpoint.port <= 65535;
}

}  // namespace

std::optional<OtlpEndpoint> ParseOtlpEndpoint(std::string_view text, const OtlpEndpointRules& rules) {
  const bool is_grpc = rules.protocol == OtlpProtocol::kGrpc;
  absl::string_view url = absl::StripAsciiWhitespace(ToAbsl(text));
  const std::optional<absl::string_view> scheme = TakeScheme(url);
  if (!scheme.has_value() || (scheme->empty() && !is_grpc)) return std::nullopt;
  OtlpEndpoint endpoint;
  endpoint.tls = scheme->empty() ? !rules.is_insecure : *scheme == "https";
  endpoint.port = is_grpc ? kGrpcPort : endpoint.tls ? kHttpsPort : kHttpPort;
  const size_t slash = std::min(url.find_first_of("/?#"), url.size());
  if (!ReadAuthority(url.substr(0, slash), endpoint)) return std::nullopt;
  endpoint.path = std::string(url.substr(slash, url.find('#') - slash));
  const auto is_path_char = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::all_of(endpoint.path.begin(), endpoint.path.end(), is_path_char)) return std::nullopt;
  if (!absl::StartsWith(endpoint.path, "/")) endpoint.path.insert(0, "/");
  if (is_grpc || !rules.is_base) return endpoint;
  if (absl::StrContains(endpoint.path, "?")) return std::nullopt;
  absl::StrAppend(&endpoint.path, absl::EndsWith(endpoint.path, "/") ? "" : "/", kTracesPath);
  return endpoint;
}

std::string OtlpEndpoint::Authority() const {
  const bool is_v6 = absl::StrContains(host, ":");
  return absl::StrCat(is_v6 ? "[" : "", host, is_v6 ? "]:" : ":", port);
}

}  // namespace baton::telemetry
