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

// A stream has response.created, response.in_progress, response.output_item.added, response.content_part.added, any
// number of response.output_text.delta, then the end of each of them, and response.completed or response.incomplete.
// One that fails has response.failed in place of what would follow.
class ResponsesWriter final : public AnswerWriter {
 public:
  // The tokenizer outlives the writer.
  ResponsesWriter(ResponsesAnswer answer, const tokenizer::Tokenizer& tokenizer)
      : answer_(std::move(answer)), tokenizer_(tokenizer) {}

  std::string Chunk(const router::GenerationDelta& delta) override;
  std::string End(const router::GenerationFinished& finished) override;
  std::string End(const absl::Status& status) override;
  std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                    const router::GenerationFinished& finished) override;

 private:
  // `members`: those behind the type and the number, each with a comma before it.
  std::string Event(const char* type, const std::string& members);
  // `output` and `end` are members of the response.
  std::string Response(const char* status, const std::string& output, const std::string& end) const;
  std::string Message(const char* status, const std::string& content) const;
  std::string Part() const;
  // The response when it has ended well.
  std::string Finished(const router::GenerationFinished& finished) const;
  // The events before the first text, once.
  std::string Begin();
  void Append(const router::GenerationDelta& delta);

  const ResponsesAnswer answer_;
  const tokenizer::Tokenizer& tokenizer_;
  bool has_begun_ = false;
  int64_t next_number_ = 0;
  // The last events repeat all of it. `logprobs_` is the inside of a JSON list.
  std::string text_;
  std::string logprobs_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_RESPONSES_WRITER_H_
