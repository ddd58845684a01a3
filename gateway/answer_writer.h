// The form in which an API writes its answers. Each API has its own writer; AnswerBody knows only this.
#ifndef BATON_GATEWAY_ANSWER_WRITER_H_
#define BATON_GATEWAY_ANSWER_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gateway/http_types.h"
#include "router/generation.h"

namespace baton::gateway {

// Writes the answer to one request, as a stream or as a whole. Used by one thread at a time: OnAccepted comes before
// everything else, the rest comes on the server's thread.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  virtual void OnAccepted(const router::GenerationAccepted& accepted) {}

  // Server-sent events with the next output. The first of them begin the answer.
  virtual std::string Chunk(const router::GenerationDelta& delta) = 0;
  // The last events of a stream.
  virtual std::string End(const router::GenerationFinished& finished) = 0;
  // A stream that has begun, and failed, ends with these.
  virtual std::string End(const absl::Status& status) = 0;

  // The answer at once: all of it, a delta for each choice, in order.
  virtual std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                            const router::GenerationFinished& finished) = 0;
};

// The response to a request that fails before it has an answer.
using ErrorMaker = HttpResponse (*)(const absl::Status& status);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ANSWER_WRITER_H_
