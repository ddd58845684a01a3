// What is known of a request when it is over, for those who observe requests: metrics, traces, the dashboard, the log.
#ifndef BATON_ROUTER_REQUEST_RECORD_H_
#define BATON_ROUTER_REQUEST_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "router/generation.h"
#include "router/request_outcome.h"
#include "telemetry/trace_context.h"

namespace baton::router {

// The request's place in a trace.
struct RequestTrace {
  // Zero: the request belongs to no trace.
  Id128 trace_id;
  // The span that stands for the whole request; 0: none is made.
  uint64_t root_span_id = 0;
  // The client's span; 0: the client has none.
  uint64_t parent_span_id = 0;
  uint8_t flags = 0;
  std::string tracestate;
  // The workers are told, and nothing else is done with it.
  std::string baggage;

  // Spans are made of the request.
  bool sampled() const { return root_span_id != 0; }
};

struct RequestRecord {
  JobId id;
  RequestTrace trace;
  // When the request reached its adapter, on both clocks. All other times count from it.
  TimeNs arrived = 0;
  int64_t arrived_unix_ns = 0;
  // What the client asked for; the defaults when the request could not be read.
  SamplingRequest sampling;
  // Only where content is recorded.
  std::string prompt_text;
  std::string output_text;

  absl::Status status;
  RequestOutcome outcome = RequestOutcome::kOk;
  FinishReason finish = FinishReason::kNone;
  uint64_t seed = 0;
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  // When the first token was written; 0: none was. The mean gap between tokens; 0 with fewer than two.
  int64_t ttft_ns = 0;
  int64_t mean_itl_ns = 0;
  // What the dispatcher says of the job; null when the request never came so far.
  std::shared_ptr<const JobResult> job;
  // The phases and the network, which is the rest, add up to the total: from the request's arrival until its last
  // message was handed to the network.
  PhaseTimes phases;
  int64_t network_ns = 0;
  int64_t total_ns = 0;
};

// Thread-safe, and quick: it is called on the router's loop and on the threads of adapters.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // Tokens as they are written: the first one, since the request's arrival, and the others, since the one before.
  virtual void OnFirstToken(int64_t ttft_ns) {}
  virtual void OnNextToken(int64_t gap_ns) {}
  // Once for each request.
  virtual void OnRequestEnded(const RequestRecord& record) = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_REQUEST_RECORD_H_
