// OpenAI's API over HTTP: an adapter of the router's generation interface. docs/openai.md says what it serves.
#ifndef BATON_GATEWAY_OPENAI_SERVICE_H_
#define BATON_GATEWAY_OPENAI_SERVICE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "gateway/generation_calls.h"
#include "gateway/http_server.h"
#include "gateway/openai_request.h"

namespace baton::gateway {

// Its handlers run on the server's thread and on those of the pool.
class OpenAiService {
 public:
  // `calls` outlives the service. `is_serving` says whether the cluster can serve now; thread-safe.
  OpenAiService(GenerationCalls& calls, std::function<bool()> is_serving);

  // The server ends before the service does.
  void AddRoutes(HttpServer& server);

 private:
  absl::StatusOr<ReadCall> Read(OpenAiEndpoint endpoint, const std::string& body, const JobId& id) const;
  absl::StatusOr<ReadCall> ReadResponses(const std::string& body, const JobId& id) const;
  absl::StatusOr<ReadCall> ReadEmbeddings(const std::string& body) const;
  absl::StatusOr<std::string> Tokenize(const std::string& body) const;
  absl::StatusOr<std::string> Detokenize(const std::string& body) const;
  std::string TokenizerInfo() const;
  std::string Models() const;

  GenerationCalls& calls_;
  const std::function<bool()> is_serving_;
  const int64_t started_unix_s_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_SERVICE_H_
