// Writes what OpenAI's clients read: whole answers, the chunks of streams, errors.
#ifndef BATON_GATEWAY_OPENAI_RESPONSE_H_
#define BATON_GATEWAY_OPENAI_RESPONSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gateway/answer_writer.h"
#include "gateway/http_types.h"
#include "gateway/openai_request.h"
#include "gateway/tools/openai_calls.h"
#include "router/generation.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

// What every answer to one request says alike.
struct OpenAiAnswer {
  OpenAiEndpoint endpoint = OpenAiEndpoint::kChat;
  int32_t choices = 1;
  std::string id;
  // Which no other answer has, whatever the client calls its request.
  std::string own_id;
  std::string model;
  int64_t created_unix_s = 0;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  bool return_phases = false;
  // It says how the calls of a chat with tools are found.
  ToolReading tools = {};
  bool is_stream = false;
  PromptWishes prompt = {};
};

class OpenAiWriter final : public AnswerWriter {
 public:
  // The tokenizer outlives the writer.
  OpenAiWriter(OpenAiAnswer answer, const tokenizer::Tokenizer& tokenizer);

  void OnAccepted(const router::GenerationAccepted& accepted) override { prompt_tokens_ = accepted.prompt_tokens; }
  // The first events of a chat name its role.
  std::string Chunk(const router::GenerationDelta& delta) override;
  std::string End(const router::GenerationFinished& finished) override;
  std::string End(const absl::Status& status) override;
  std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                    const router::GenerationFinished& finished) override;

 private:
  // What the stream of one choice has said.
  struct Choice {
    bool has_begun = false;
    // In characters of the text, for the offsets of /v1/completions.
    int64_t text_offset = 0;
    // None without tools that may be called.
    std::optional<OpenAiCalls> calls;
  };

  // What a chunk of choices says of the usage, with a comma before it.
  std::string UsageSoFar() const;
  // `members`: those of the chunk behind its choices, each with a comma before it.
  std::string Event(int32_t index, const std::string& choice, const std::string& members = "") const;
  Choice& At(int32_t index) { return choices_.at(static_cast<size_t>(index)); }
  // Names the role of a chat, once for each choice. `members`: as of Event.
  std::string Begin(int32_t index, const std::string& members = "");
  std::string Output(const router::GenerationDelta& delta);
  // Why the choice ended, as JSON.
  const char* FinishOf(int32_t index, FinishReason reason);
  std::string EndChoice(int32_t index, FinishReason reason, const std::string& members = "");
  std::string WholeChoice(const router::GenerationDelta& output, FinishReason reason);
  std::string Logprobs(const router::GenerationDelta& delta);
  std::string CompletionLogprobs(const router::GenerationDelta& delta);
  std::string TokenIds(const router::GenerationDelta& delta) const;
  // Where the delta is the first of its choice.
  std::string PromptTokenIds(const router::GenerationDelta& delta) const;
  std::string Phases(const router::GenerationTiming& timing) const;

  const OpenAiAnswer answer_;
  const tokenizer::Tokenizer& tokenizer_;
  // The members that every chunk has.
  const std::string chunk_begin_;
  // By index.
  std::vector<Choice> choices_;
  // What all prompts have, and what all choices have so far.
  int32_t prompt_tokens_ = 0;
  int32_t output_tokens_ = 0;
};

// The response to a request that fails before it has an answer.
HttpResponse OpenAiError(const absl::Status& status);
// What HTTP itself refuses.
HttpResponse OpenAiRefusal(int http_status, const std::string& message);
}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_RESPONSE_H_
