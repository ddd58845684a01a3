// The prompts of OpenAI's requests that are no chats, and what a request may ask for of its prompt: its text and tokens
// before the output (`echo`), and vLLM's `prompt_logprobs`.
#ifndef BATON_GATEWAY_OPENAI_PROMPT_H_
#define BATON_GATEWAY_OPENAI_PROMPT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gateway/answer_writer.h"
#include "gateway/field_reader.h"
#include "nlohmann/json.hpp"
#include "router/generation.h"
#include "tokenizer/tokenizer.h"

namespace baton::gateway {

// One prompt, or a list of at most kMaxChoices: each a string or a list of token ids. `field` is their name in errors.
absl::Status ReadPrompts(const nlohmann::json& value, const char* field, bool adds_special_tokens,
                         router::GenerationRequest& generation);

struct PromptWishes {
  // The output follows the prompt's text. With a value of `echo_logprobs`, its tokens are among those with
  // log-probabilities, each with so many likely ones.
  bool echo = false;
  std::optional<int32_t> echo_logprobs;
  // The prompt is all that is asked for: the request wanted no output.
  bool is_alone = false;
  // How many likely tokens vLLM's list has for each of the prompt's.
  std::optional<int32_t> prompt_logprobs;
};

// The fields of either endpoint. To be called once the sampling fields are in `generation`, which gets what has to be
// computed. UNIMPLEMENTED for vLLM's list in a stream.
absl::Status ReadPromptLogprobs(FieldReader& fields, bool is_stream, router::GenerationRequest& generation,
                                PromptWishes& wishes);
// Those of /v1/completions alone, behind the others.
void ReadEcho(FieldReader& fields, router::GenerationRequest& generation, PromptWishes& wishes);

// vLLM's list as a member, with a comma before it; empty where it is not asked for.
std::string PromptLogprobsMember(const tokenizer::Tokenizer& tokenizer, const router::GenerationDelta& output,
                                 const PromptWishes& wishes);

// The index of a token of the prompt that is shown before the output. The first of them has no log-probability, which
// is NaN.
inline constexpr int32_t kEchoedIndex = -1;

// A writer that lets `writer` say the prompt before the output.
std::unique_ptr<AnswerWriter> MakeEchoWriter(const PromptWishes& wishes, std::unique_ptr<AnswerWriter> writer);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_PROMPT_H_
