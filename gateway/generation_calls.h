// What all APIs over HTTP do alike: they read a request on the pool of client work, hand it to the router's generation
// interface, observe it, and cancel it when its client leaves. An API adds how its requests are read, and how its
// answers and errors are written.
#ifndef BATON_GATEWAY_GENERATION_CALLS_H_
#define BATON_GATEWAY_GENERATION_CALLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/random.h"
#include "gateway/answer_writer.h"
#include "gateway/http_types.h"
#include "router/api_keys.h"
#include "router/client_work.h"
#include "router/generation.h"
#include "router/observed_request.h"
#include "router/request_reader.h"
#include "router/request_tracer.h"
#include "router/served_model.h"
#include "router/unread_output.h"

namespace baton::gateway {

class AnswerBody;

// What the calls work with. All of it outlives them; `random` is thread-safe.
struct GenerationCallsParts {
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
};

// How an API speaks of what is no answer.
struct ApiForm {
  ErrorMaker make_error = nullptr;
  // The header of each response that names the request: as the client calls it in its X-Request-Id, or as Baton does.
  const char* request_id_header = "X-Request-Id";
};

// A request as an API has read it.
struct ReadCall {
  // Without id, times and trace.
  router::GenerationRequest generation;
  std::unique_ptr<AnswerWriter> writer;
  bool is_stream = false;
};

// Thread-safe. Readers run on the pool's threads, everything else on the server's; what they hold outlives the calls.
class GenerationCalls {
 public:
  using Reader = std::function<absl::StatusOr<ReadCall>(const std::string& body, const JobId& id)>;

  explicit GenerationCalls(const GenerationCallsParts& parts) : parts_(parts), unread_({}, parts.clock) {}

  // Answers the exchange with what `read` asks for.
  void Generate(const std::shared_ptr<HttpExchange>& exchange, const ApiForm& form, Reader read);
  // Answers the exchange with what `answer` makes of its body on the pool, so that whoever asks again and again holds
  // up no stream.
  void Work(const std::shared_ptr<HttpExchange>& exchange, const ApiForm& form,
            std::function<absl::StatusOr<HttpResponse>(const std::string& body)> answer);
  // As Work, for one small JSON of a body of JSON.
  void Compute(const std::shared_ptr<HttpExchange>& exchange, const ApiForm& form,
               std::function<absl::StatusOr<std::string>(const std::string& body)> answer);

  const router::ServedModel& model() const { return parts_.model; }
  const router::RequestReader& reader() const { return parts_.reader; }

  // Waits until clients have read the answers whose requests have ended, at most for the time. How many are left.
  size_t AwaitRead(int64_t timeout_ms) { return unread_.AwaitRead(timeout_ms); }
  // What clients have not read.
  const router::UnreadOutput& unread() const { return unread_; }
  // Returns when no exchange is left. The server has stopped.
  void AwaitNone() { unread_.AwaitNone(); }

 private:
  // A request that is still to be read.
  struct Incoming {
    JobId id;
    std::string tenant;
    std::string body;
    Reader read;
    std::shared_ptr<AnswerBody> answer;
    std::shared_ptr<router::ObservedRequest> request;
  };

  // On a thread of the pool.
  void Begin(Incoming incoming);

  const GenerationCallsParts parts_;
  router::UnreadOutput unread_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_GENERATION_CALLS_H_
