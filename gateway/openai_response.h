// Writes what OpenAI's clients read: whole answers, the chunks of streams, errors.
#ifndef BATON_GATEWAY_OPENAI_RESPONSE_H_
#define BATON_GATEWAY_OPENAI_RESPONSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gateway/answer_writer.h"
#include "gateway/http_types.h"
#include "gateway/openai_request.h"
#include "router/generation.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

// What every answer to one request says alike.
struct OpenAiAnswer {
  OpenAiEndpoint endpoint = OpenAiEndpoint::kChat;
  std::string id;
  std::string model;
  int64_t created_unix_s = 0;
  bool include_usage = false;
  bool return_token_ids = false;
  bool return_phases = false;
};

class OpenAiWriter final : public AnswerWriter {
 public:
  // The tokenizer outlives the writer.
  OpenAiWriter(OpenAiAnswer answer, const tokenizer::Tokenizer& tokenizer);

  // The first events of a chat name its role.
  std::string Chunk(const router::GenerationDelta& delta) override;
  std::string End(const router::GenerationFinished& finished) override;
  std::string End(const absl::Status& status) override;
  std::string Whole(const router::GenerationDelta& output, const router::GenerationFinished& finished) override;

 private:
  // `members`: those of the chunk behind its choices, each with a comma before it.
  std::string Event(const std::string& choice, const std::string& members = "") const;
  // Names the role of a chat, once.
  std::string Begin();
  std::string Logprobs(const router::GenerationDelta& delta);
  std::string CompletionLogprobs(const std::vector<OutputToken>& tokens);
  std::string TokenIds(const router::GenerationDelta& delta) const;
  std::string Phases(const router::GenerationTiming& timing) const;

  const OpenAiAnswer answer_;
  const tokenizer::Tokenizer& tokenizer_;
  // The members that every chunk has.
  const std::string chunk_begin_;
  bool has_begun_ = false;
  // In characters of the text, for the offsets of /v1/completions.
  int64_t text_offset_ = 0;
};

// The response to a request that fails before it has an answer.
HttpResponse OpenAiError(const absl::Status& status);
// What HTTP itself refuses.
HttpResponse OpenAiRefusal(int http_status, const std::string& message);
}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_RESPONSE_H_
