// OpenAI's API over HTTP: an adapter of the router's generation interface. docs/openai.md says what it serves.
#ifndef BATON_GATEWAY_OPENAI_SERVICE_H_
#define BATON_GATEWAY_OPENAI_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/random.h"
#include "gateway/answer_body.h"
#include "gateway/http_server.h"
#include "gateway/openai_request.h"
#include "router/api_keys.h"
#include "router/client_work.h"
#include "router/generation.h"
#include "router/observed_request.h"
#include "router/request_reader.h"
#include "router/request_tracer.h"
#include "router/served_model.h"
#include "router/unread_output.h"

namespace baton::gateway {

// What the service works with. All of it outlives the service; `random` is thread-safe.
struct OpenAiServiceParts {
  const router::ServedModel& model;
  const Clock& clock;
  RandomSource& random;
  router::GenerationBackend& backend;
  const router::RequestReader& reader;
  router::ClientWork& work;
  const router::RequestObservers& observers;
  // Null: no request is traced, and what a client says of its trace goes on to the workers.
  router::RequestTracer* tracer = nullptr;
  // Null: clients need no key. The server's admission has asked for one by then.
  const router::ApiKeys* api_keys = nullptr;
  // Whether the cluster can serve now. Thread-safe.
  std::function<bool()> is_serving;
};

// Its handlers run on the server's thread and on those of `work`.
class OpenAiService {
 public:
  explicit OpenAiService(const OpenAiServiceParts& parts);

  // The server ends before the service does.
  void AddRoutes(HttpServer& server);
  // Waits until clients have read the answers whose requests have ended, at most for the time. How many are left.
  size_t AwaitRead(int64_t timeout_ms) { return unread_.AwaitRead(timeout_ms); }
  // What clients have not read.
  const router::UnreadOutput& unread() const { return unread_; }
  // Returns when no exchange of the service is left. The server has stopped.
  void AwaitNone() { unread_.AwaitNone(); }

 private:
  // A request that is still to be read.
  struct Incoming {
    OpenAiEndpoint endpoint;
    JobId id;
    std::string tenant;
    std::string body;
    std::shared_ptr<AnswerBody> answer;
    std::shared_ptr<router::ObservedRequest> request;
  };

  void Generate(OpenAiEndpoint endpoint, const std::shared_ptr<HttpExchange>& exchange);
  // On a thread of the pool.
  void Begin(Incoming incoming);
  // Runs `answer(body)` in the pool, for exchanges that are over with one small answer.
  void Compute(const std::shared_ptr<HttpExchange>& exchange,
               std::function<absl::StatusOr<std::string>(const std::string& body)> answer);
  absl::StatusOr<std::string> Tokenize(const std::string& body) const;
  absl::StatusOr<std::string> Detokenize(const std::string& body) const;
  std::string Models() const;

  const OpenAiServiceParts parts_;
  const int64_t started_unix_s_;
  router::UnreadOutput unread_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_SERVICE_H_
