#include "cli/http_port.h"

#include <utility>

#include "cli/options.h"
#include "cli/port_flag.h"
#include "common/status.h"
#include "gateway/openai_response.h"
#include "gateway/web_chat.h"

namespace baton::cli {

void AddHttpFlags(CLI::App& app, HttpFlags& flags) {
  app.add_option("--http-port", flags.port, "OpenAI's API by HTTP; 0: any free port; off: none")
      ->check(PortOrOffCheck())
      ->group(kAddressGroup)
      ->default_str(std::to_string(kDefaultHttpPort));
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Open(const HttpFlags& flags, const HttpPortOptions& options,
                                                         const gateway::OpenAiServiceParts& parts) {
  std::unique_ptr<HttpPort> http(new HttpPort(parts));
  std::optional<int> port = PortOrOff(flags.port, options.default_port);
  if (options.is_secured) {
    if (port.has_value() && !flags.port.empty()) {
      return absl::InvalidArgumentError(
          "--http-port has neither TLS nor API keys yet: leave it out, or give --http-port off and let clients of "
          "HTTP come through a proxy of yours");
    }
    port.reset();
  }
  if (!port.has_value()) return http;
  http->server_.emplace(gateway::HttpServerOptions{
      .bind = options.bind, .port = *port, .make_refusal = [](std::string_view, int status, std::string message) {
        return gateway::OpenAiRefusal(status, message);
      }});
  http->openai_.AddRoutes(*http->server_);
  gateway::AddWebChatRoutes(*http->server_);
  BATON_RETURN_IF_ERROR(http->server_->Start());
  return http;
}

HttpPort::~HttpPort() { Stop(); }

void HttpPort::StopAccepting() {
  if (server_.has_value()) server_->StopAccepting();
}

void HttpPort::Stop() {
  if (server_.has_value()) server_->Stop();
  openai_.AwaitNone();
}

}  // namespace baton::cli
