// Where a collector listens, as its URL says it.
#ifndef BATON_TELEMETRY_OTLP_ENDPOINT_H_
#define BATON_TELEMETRY_OTLP_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::telemetry {

enum class OtlpProtocol : uint8_t { kGrpc, kHttpProtobuf };

struct OtlpEndpoint {
  bool tls = false;
  // Without the brackets of an IPv6 address.
  std::string host;
  int port = 0;
  // HTTP alone uses it. It begins with "/" and may have a query.
  std::string path = "/";

  // host:port, as it stands in a URL.
  std::string Authority() const;
};

struct OtlpEndpointRules {
  OtlpProtocol protocol = OtlpProtocol::kGrpc;
  // Over HTTP, the path of traces is added.
  bool is_base = false;
  // A URL without a scheme, which gRPC alone may have, means no TLS.
  bool is_insecure = false;
};

// nullopt when the text is no URL of a collector. Without a port, it is 4317 for gRPC, and 80 or 443 for HTTP.
std::optional<OtlpEndpoint> ParseOtlpEndpoint(std::string_view url, const OtlpEndpointRules& rules);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_OTLP_ENDPOINT_H_
