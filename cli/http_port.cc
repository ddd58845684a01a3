#include "cli/http_port.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "cli/options.h"
#include "cli/port_flag.h"
#include "common/status.h"
#include "gateway/anthropic_response.h"
#include "gateway/openai_response.h"
#include "gateway/web_chat.h"

namespace baton::cli {
namespace {

gateway::HttpResponse MakeRefusal(std::string_view path, int status, const std::string& message) {
  const bool is_anthropic = absl::StartsWith(ToAbsl(path), gateway::kMessagesPath);
  return is_anthropic ? gateway::AnthropicRefusal(status, message) : gateway::OpenAiRefusal(status, message);
}

}  // namespace

void AddHttpFlags(CLI::App& app, HttpFlags& flags) {
  app.add_option("--http-port", flags.port, "OpenAI's and Anthropic's APIs by HTTP; 0: any free port; off: none")
      ->check(PortOrOffCheck())
      ->group(kAddressGroup)
      ->default_str(std::to_string(kDefaultHttpPort));
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Open(const HttpFlags& flags, const HttpPortOptions& options,
                                                         const gateway::GenerationCallsParts& parts) {
  std::unique_ptr<HttpPort> http(new HttpPort(parts, options.is_serving));
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
  http->server_.emplace(gateway::HttpServerOptions{.bind = options.bind, .port = *port, .make_refusal = MakeRefusal});
  http->openai_.AddRoutes(*http->server_);
  http->anthropic_.AddRoutes(*http->server_);
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
  calls_.AwaitNone();
}

}  // namespace baton::cli
