// The router's port for clients that speak HTTP: OpenAI's API and Anthropic's.
#ifndef BATON_CLI_HTTP_PORT_H_
#define BATON_CLI_HTTP_PORT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"
#include "common/rpc/tls_contexts.h"
#include "gateway/anthropic_service.h"
#include "gateway/generation_calls.h"
#include "gateway/http_server.h"
#include "gateway/openai_service.h"

namespace baton::cli {

struct HttpFlags {
  // A port, 0 for any free one, or "off". Empty: the default.
  std::string port;
  // Names by which a port in plain text on loopback may be called; "*": all.
  std::vector<std::string> hosts;
  // The port serves /metrics.
  bool metrics = false;
};

void AddHttpFlags(CLI::App& app, HttpFlags& flags);

struct HttpPortOptions {
  std::string bind;
  // Where the flag says nothing.
  int default_port = 0;
  // The credentials of the process, which outlive the port. Null: plain text.
  const rpc::Credentials* credentials = nullptr;
  // Whom the router's port of gRPC clients lets in, and so this one.
  rpc::ServerGuard guard;
  // Whether the cluster can serve now. Thread-safe.
  std::function<bool()> is_serving;
  // The text of /metrics. Thread-safe; it outlives the port.
  std::function<std::string()> metrics;
};

class HttpPort {
 public:
  // Listens, unless the port is off. INVALID_ARGUMENT for a certificate that cannot be used here.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Open(const HttpFlags& flags, const HttpPortOptions& options,
                                                        const gateway::GenerationCallsParts& parts);
  // Stops.
  ~HttpPort();

  // host:port; empty: off.
  std::string address() const { return server_.has_value() ? server_->address() : std::string(); }
  // New requests are refused; those that run go on.
  void StopAccepting();
  // As HttpServer and GenerationCalls count them. Thread-safe.
  size_t connections() const { return server_.has_value() ? server_->stats().connections : 0; }
  const router::UnreadOutput& unread() const { return calls_.unread(); }
  // As GenerationCalls::AwaitRead.
  size_t AwaitRead(int64_t timeout_ms) { return calls_.AwaitRead(timeout_ms); }
  // Cuts what runs.
  void Stop();

 private:
  HttpPort(const gateway::GenerationCallsParts& parts, std::function<bool()> is_serving)
      : calls_(parts), openai_(calls_, std::move(is_serving)), anthropic_(calls_) {}

  void AddMetricsRoute(std::function<std::string()> metrics);

  gateway::GenerationCalls calls_;
  gateway::OpenAiService openai_;
  gateway::AnthropicService anthropic_;
  // Null: plain text.
  std::unique_ptr<rpc::TlsContexts> tls_;
  std::optional<gateway::HttpServer> server_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_HTTP_PORT_H_
