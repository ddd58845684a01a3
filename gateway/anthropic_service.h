// Anthropic's Messages API over HTTP: an adapter of the router's generation interface. docs/anthropic.md says what it
// serves.
#ifndef BATON_GATEWAY_ANTHROPIC_SERVICE_H_
#define BATON_GATEWAY_ANTHROPIC_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "gateway/generation_calls.h"
#include "gateway/http_server.h"

namespace baton::gateway {

// Its handlers run on the server's thread and on those of the pool.
class AnthropicService {
 public:
  // `calls` outlives the service.
  explicit AnthropicService(GenerationCalls& calls) : calls_(calls) {}

  // The server ends before the service does.
  void AddRoutes(HttpServer& server);

 private:
  absl::StatusOr<ReadCall> Read(const std::string& body, const JobId& id) const;
  absl::StatusOr<std::string> CountTokens(const std::string& body) const;

  GenerationCalls& calls_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ANTHROPIC_SERVICE_H_
