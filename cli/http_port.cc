#include "cli/http_port.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/options.h"
#include "cli/port_flag.h"
#include "common/status.h"
#include "gateway/admission.h"
#include "gateway/api_document.h"
#include "gateway/api_of_path.h"
#include "gateway/web_chat.h"
#include "telemetry/metrics.h"

namespace baton::cli {

void AddHttpFlags(CLI::App& app, HttpFlags& flags) {
  app.add_option("--http-port", flags.port, "OpenAI's and Anthropic's APIs by HTTP; 0: any free port; off: none")
      ->check(PortOrOffCheck())
      ->group(kAddressGroup)
      ->default_str(std::to_string(kDefaultHttpPort));
  app.add_option(
         "--http-hosts", flags.hosts,
         "host names by which the HTTP port may be called where it is on loopback without TLS, besides addresses "
         "and localhost; *: all")
      ->delimiter(',');
  app.add_flag("--http-metrics", flags.metrics,
               "the HTTP port serves /metrics, too, to everybody who may ask it anything");
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Open(const HttpFlags& flags, const HttpPortOptions& options,
                                                         const gateway::GenerationCallsParts& parts) {
  std::unique_ptr<HttpPort> http(new HttpPort(parts, options.is_serving));
  const std::optional<int> port = PortOrOff(flags.port, options.default_port);
  if (!port.has_value()) return http;
  gateway::HttpServerOptions server = {
      .bind = options.bind, .port = *port, .hosts = flags.hosts, .make_refusal = gateway::MakeRefusal};
  if (options.credentials != nullptr) {
    BATON_ASSIGN_OR_RETURN(http->tls_,
                           rpc::TlsContexts::Create(*options.credentials, options.guard.rules.requires_certificate));
    server.tls_context = [tls = http->tls_.get()] { return tls->Current(); };
  }
  rpc::ServerGuard guard = options.guard;
  guard.rules.port = rpc::Port::kHttp;
  server.admit = gateway::MakeAdmission(std::move(guard), options.credentials);
  http->server_.emplace(std::move(server));
  http->openai_.AddRoutes(*http->server_);
  http->anthropic_.AddRoutes(*http->server_);
  gateway::AddApiDocumentRoute(*http->server_);
  gateway::AddWebChatRoutes(*http->server_);
  if (flags.metrics) http->AddMetricsRoute(options.metrics);
  BATON_RETURN_IF_ERROR(http->server_->Start());
  return http;
}

void HttpPort::AddMetricsRoute(std::function<std::string()> metrics) {
  constexpr char kPath[] = "/metrics";
  const gateway::ApiForm form = {.make_error = gateway::ErrorMakerOf(kPath)};
  server_->AddRoute("GET", kPath,
                    [this, form, metrics = std::move(metrics)](const std::shared_ptr<gateway::HttpExchange>& exchange) {
                      calls_.Work(exchange, form, [metrics](const std::string&) {
                        return gateway::HttpResponse{.content_type = telemetry::kMetricsContentType, .body = metrics()};
                      });
                    });
}

HttpPort::~HttpPort() { Stop(); }

void HttpPort::StopAccepting() {
  if (server_.has_value()) server_->StopAccepting();
}

void HttpPort::Stop() {
  if (server_.has_value()) server_->Stop();
  calls_.AwaitNone();
}

}  // namespace baton::cli
