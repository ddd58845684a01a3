#include "gateway/openai_prompt.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/limits.h"
#include "gateway/json_reading.h"
#include "gateway/json_writing.h"
#include "gateway/openai_logprobs.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using nlohmann::json;
using router::FieldViolation;

// A string or a list of token ids.
std::optional<router::Prompt> ReadPrompt(const json& prompt, bool adds_special_tokens) {
  if (prompt.is_string()) {
    return router::TextPrompt{.text = prompt.get<std::string>(), .add_special_tokens = adds_special_tokens};
  }
  auto ids = ToInt32s(prompt);
  if (!ids.has_value()) return std::nullopt;
  return router::TokenPrompt{.ids = *std::move(ids)};
}

// The prompt's tokens as if they were the first of the output.
std::vector<OutputToken> EchoedTokens(const router::GenerationPrompt& prompt, int32_t most) {
  std::vector<OutputToken> tokens;
  tokens.reserve(prompt.tokens.size());
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    OutputToken& token = tokens.emplace_back(OutputToken{.index = kEchoedIndex, .token = prompt.tokens[i]});
    token.logprob = std::numeric_limits<float>::quiet_NaN();
    if (i == 0) continue;
    const PromptLogprob& logprob = (*prompt.logprobs)[i - 1];
    token.logprob = logprob.logprob;
    token.top = logprob.top;
    if (token.top.size() > static_cast<size_t>(most)) token.top.resize(static_cast<size_t>(most));
  }
  return tokens;
}

class EchoWriter final : public AnswerWriter {
 public:
  EchoWriter(const PromptWishes& wishes, std::unique_ptr<AnswerWriter> writer)
      : wishes_(wishes), writer_(std::move(writer)) {}

  void OnAccepted(const router::GenerationAccepted& accepted) override { writer_->OnAccepted(accepted); }
  std::string Chunk(const router::GenerationDelta& delta) override {
    // An output that nobody asked for.
    if (wishes_.is_alone && delta.prompt == nullptr && !delta.end.has_value()) return {};
    return writer_->Chunk(WithPrompt(delta));
  }
  std::string End(const router::GenerationFinished& finished) override { return writer_->End(WithoutOutput(finished)); }
  std::string End(const absl::Status& status) override { return writer_->End(status); }
  std::string Whole(absl::Span<const router::GenerationDelta> outputs,
                    const router::GenerationFinished& finished) override {
    std::vector<router::GenerationDelta> shown;
    shown.reserve(outputs.size());
    for (const router::GenerationDelta& output : outputs) shown.push_back(WithPrompt(output));
    return writer_->Whole(shown, WithoutOutput(finished));
  }

 private:
  router::GenerationDelta WithPrompt(const router::GenerationDelta& delta) const {
    router::GenerationDelta shown = {
        .has_logprobs = delta.has_logprobs, .choice = delta.choice, .end = delta.end, .prompt = delta.prompt};
    if (wishes_.is_alone && shown.end.has_value()) shown.end->reason = FinishReason::kLength;
    if (delta.prompt != nullptr) {
      shown.text = delta.prompt->text.value_or("");
      if (wishes_.echo_logprobs.has_value()) shown.tokens = EchoedTokens(*delta.prompt, *wishes_.echo_logprobs);
    }
    if (wishes_.is_alone) return shown;
    shown.text += delta.text;
    shown.tokens.insert(shown.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    return shown;
  }

  router::GenerationFinished WithoutOutput(router::GenerationFinished finished) const {
    if (!wishes_.is_alone) return finished;
    finished.reason = FinishReason::kLength;
    finished.usage.output_tokens = 0;
    return finished;
  }

  const PromptWishes wishes_;
  const std::unique_ptr<AnswerWriter> writer_;
};

}  // namespace

absl::Status ReadPrompts(const json& value, const char* field, bool adds_special_tokens,
                         router::GenerationRequest& generation) {
  const bool are_several = value.is_array() && !value.empty() && !value.front().is_number();
  const size_t count = are_several ? value.size() : 1;
  if (count > kMaxChoices) return FieldViolation(field, absl::StrCat("at most ", kMaxChoices, " prompts a request"));
  generation.prompt_field = field;
  for (size_t i = 0; i < count; ++i) {
    auto prompt = ReadPrompt(are_several ? value[i] : value, adds_special_tokens);
    if (!prompt.has_value()) {
      return FieldViolation(field, "must be a string or a list of token ids, or a list of either");
    }
    if (i == 0) {
      generation.prompt = *std::move(prompt);
    } else {
      generation.more_prompts.push_back(*std::move(prompt));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadPromptLogprobs(FieldReader& fields, bool is_stream, router::GenerationRequest& generation,
                                PromptWishes& wishes) {
  wishes.prompt_logprobs = fields.Integer("prompt_logprobs");
  generation.sampling.prompt_logprobs = wishes.prompt_logprobs;
  if (!wishes.prompt_logprobs.has_value() || !is_stream) return absl::OkStatus();
  return router::FieldStatus(absl::StatusCode::kUnimplemented,
                             {.field = "prompt_logprobs", .description = "a stream has none"});
}

void ReadEcho(FieldReader& fields, router::GenerationRequest& generation, PromptWishes& wishes) {
  wishes.echo = fields.Bool("echo").value_or(false);
  generation.echo = wishes.echo;
  if (!wishes.echo) return;
  router::SamplingRequest& sampling = generation.sampling;
  wishes.echo_logprobs = sampling.logprobs;
  if (sampling.logprobs.has_value()) {
    sampling.prompt_logprobs = std::max(*sampling.logprobs, sampling.prompt_logprobs.value_or(0));
  }
  // A job has an output, which is then left out.
  wishes.is_alone = sampling.max_tokens == 0;
  if (wishes.is_alone) sampling.max_tokens = 1;
}

std::string PromptLogprobsMember(const tokenizer::Tokenizer& tokenizer, const router::GenerationDelta& output,
                                 const PromptWishes& wishes) {
  if (!wishes.prompt_logprobs.has_value() || output.prompt == nullptr) return {};
  const router::GenerationPrompt& prompt = *output.prompt;
  std::string entries;
  for (size_t i = 1; i < prompt.tokens.size(); ++i) {
    const PromptLogprob& logprob = (*prompt.logprobs)[i - 1];
    const auto likely = absl::MakeConstSpan(logprob.top).subspan(0, static_cast<size_t>(*wishes.prompt_logprobs));
    absl::StrAppend(
        &entries, ",",
        VllmLogprobs(tokenizer, {.token = prompt.tokens[i], .logprob = logprob.logprob}, logprob.rank, likely));
  }
  return absl::StrCat(R"(,"prompt_logprobs":[null)", entries, "]");
}

std::unique_ptr<AnswerWriter> MakeEchoWriter(const PromptWishes& wishes, std::unique_ptr<AnswerWriter> writer) {
  return std::make_unique<EchoWriter>(wishes, std::move(writer));
}

}  // namespace baton::gateway
