// Writes what OpenAI's clients read of /v1/responses: whole responses and the events of streams. Errors are those of
// the other endpoints (openai_response.h). Source: the reference of the Responses API, "Streaming events".
#ifndef BATON_GATEWAY_RESPONSES_WRITER_H_
#define BATON_GATEWAY_RESPONSES_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gateway/answer_writer.h"
#include "gateway/responses_request.h"
#include "gateway/tools/responses_output.h"
#include "router/generation.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

struct ResponsesAnswer {
  // 32 hex digits, of which the ids of the response and of its message are made.
  std::string id;
  std::string model;
  int64_t created_unix_s = 0;
  // What it repeats of the request; the generation is not used.
  ResponsesRequest request;
};

// A stream has response.created and response.in_progress, then for each item response.output_item.added, what it is
// made of (responses_output.h) and response.output_item.done, and response.completed or response.incomplete. One that
// fails has response.failed in place of what would follow.
class ResponsesWriter final : public AnswerWriter {
 public:
  // The tokenizer outlives the writer.
  ResponsesWriter(ResponsesAnswer answer, const tokenizer::Tokenizer& tokenizer)
      : answer_(std::move(answer)),
        tokenizer_(tokenizer),
        output_(answer_.request.reading, answer_.request.stream, answer_.id, events_) {}
  // The output refers to the events.
  ResponsesWriter(const ResponsesWriter&) = delete;
  ResponsesWriter& operator=(const ResponsesWriter&) = delete;

  std::string Chunk(const router::GenerationDelta& delta) override;
  std::string End(const router::GenerationFinished& finished) override;
  std::string End(const absl::Status& status) override;
  std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                    const router::GenerationFinished& finished) override;

 private:
  // `output` and `end` are members of the response.
  std::string Response(const char* status, const std::string& output, const std::string& end) const;
  // The response when it has ended well.
  std::string Finished(const router::GenerationFinished& finished) const;
  // The events before the first item, once.
  void Begin();
  void Append(const router::GenerationDelta& delta);

  const ResponsesAnswer answer_;
  const tokenizer::Tokenizer& tokenizer_;
  ResponsesEvents events_;
  ResponsesOutput output_;
  bool has_begun_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_RESPONSES_WRITER_H_
