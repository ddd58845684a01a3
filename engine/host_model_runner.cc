#include "engine/host_model_runner.h"

#include <algorithm>

#include "common/check.h"

namespace baton::engine {
namespace {

// Samplers that run in parallel, one per row of a step. Each holds 20 bytes per token of the vocabulary.
constexpr int kSamplers = 4;

}  // namespace

HostModelRunner::HostModelRunner(int32_t vocab_size, int32_t max_tokens)
    : vocab_size_(vocab_size),
      max_tokens_(max_tokens),
      logits_(static_cast<size_t>(max_tokens) * static_cast<size_t>(vocab_size) * sizeof(float)) {
  samplers_.reserve(kSamplers);
  for (int i = 0; i < kSamplers; ++i) samplers_.emplace_back(vocab_size);
}

void HostModelRunner::Submit(const StepBatch& batch, const StepOutputs& outputs) {
  BATON_CHECK(!in_flight_) << "one step at a time";
  const size_t count = static_cast<size_t>(batch.output_count);
  const auto is_of = [count](size_t size, int32_t width) {
    return size == 0 || size == count * static_cast<size_t>(width);
  };
  BATON_CHECK(batch.token_sources.empty()) << "a token of the step before, where no step is ahead";
  BATON_CHECK(is_of(outputs.tokens.size(), 1)) << outputs.tokens.size() << " tokens of " << count;
  BATON_CHECK(outputs.tokens.empty() || batch.choices.size() == count) << batch.choices.size() << " choices";
  BATON_CHECK(outputs.tokens.size() <= static_cast<size_t>(max_tokens_)) << outputs.tokens.size() << " tokens";
  BATON_CHECK(is_of(outputs.logits.size(), vocab_size_)) << outputs.logits.size() << " logits of " << count << " rows";
  BATON_CHECK(is_of(outputs.hidden_states.size(), hidden_size())) << outputs.hidden_states.size() << " hidden states";
  batch_ = batch;
  outputs_ = outputs;
  in_flight_ = true;
}

void HostModelRunner::Complete() {
  BATON_CHECK(in_flight_) << "no step was submitted";
  // The rows of an embedding choose nothing, and need no logits then.
  const bool chooses = !outputs_.tokens.empty() &&
                       std::any_of(batch_.choices.begin(), batch_.choices.end(), [](const TokenChoice& choice) {
                         return choice.sampling != nullptr || choice.score != nullptr;
                       });
  const absl::Span<float> own = chooses ? Logits(0, batch_.output_count) : absl::Span<float>();
  Forward(batch_, chooses ? own : outputs_.logits, outputs_.hidden_states);
  if (chooses) {
    if (!outputs_.logits.empty()) std::copy(own.begin(), own.end(), outputs_.logits.begin());
    ChooseTokens();
  }
  in_flight_ = false;
}

// Samplers take rows in turn.
void HostModelRunner::ChooseTokens() {
  const int samplers = std::min(kSamplers, batch_.output_count);
  ForEach(samplers, [&](int sampler) {
    for (int32_t row = sampler; row < batch_.output_count; row += samplers) {
      const TokenChoice& choice = batch_.choices[static_cast<size_t>(row)];
      if (choice.score != nullptr) *choice.score = ScoreToken(choice.scored_token, choice.scored_top, Logits(row, 1));
      if (choice.sampling == nullptr) continue;
      outputs_.tokens[static_cast<size_t>(row)] =
          samplers_[static_cast<size_t>(sampler)].Sample(*choice.sampling, choice.context, Logits(row, 1));
    }
  });
}

}  // namespace baton::engine
