// Writes what Anthropic's clients read: whole messages, the events of streams, errors.
// Source: the Messages API's reference, "Streaming Messages" and "Errors".
#ifndef BATON_GATEWAY_ANTHROPIC_RESPONSE_H_
#define BATON_GATEWAY_ANTHROPIC_RESPONSE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gateway/answer_writer.h"
#include "gateway/http_types.h"
#include "gateway/tools/anthropic_calls.h"
#include "router/generation.h"

namespace baton::gateway {

struct AnthropicAnswer {
  std::string id;
  std::string model;
  // The request's; an answer that ends by its length with fewer has filled the context.
  int32_t max_tokens = 0;
  // The request's, for the answer says which of them ended it.
  std::vector<std::string> stop_sequences;
  // How the calls in the answer are found.
  ToolReading tools = {};
  bool is_stream = false;
};

// A stream has message_start, for each block content_block_start, any number of content_block_delta and
// content_block_stop, then message_delta and message_stop, or an event "error" in place of what would follow.
class AnthropicWriter final : public AnswerWriter {
 public:
  explicit AnthropicWriter(AnthropicAnswer answer)
      : answer_(std::move(answer)),
        content_(answer_.tools, answer_.is_stream, answer_.id.substr(answer_.id.find('_') + 1)) {}

  void OnAccepted(const router::GenerationAccepted& accepted) override { prompt_tokens_ = accepted.prompt_tokens; }
  std::string Chunk(const router::GenerationDelta& delta) override;
  std::string End(const router::GenerationFinished& finished) override;
  std::string End(const absl::Status& status) override;
  std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                    const router::GenerationFinished& finished) override;

 private:
  // The members of a message up to its content.
  std::string Members() const;
  // message_start and the first block where it is known, once.
  std::string Begin();
  // The members that say why the answer ended.
  std::string StopMembers(const router::GenerationFinished& finished) const;

  const AnthropicAnswer answer_;
  AnthropicContent content_;
  int32_t prompt_tokens_ = 0;
  bool has_begun_ = false;
};

// The response to a request that fails before it has an answer.
HttpResponse AnthropicError(const absl::Status& status);
// What HTTP itself refuses.
HttpResponse AnthropicRefusal(int http_status, const std::string& message);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ANTHROPIC_RESPONSE_H_
