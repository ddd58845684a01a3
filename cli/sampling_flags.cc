#include "cli/sampling_flags.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"

namespace baton::cli {
namespace {

// Reads ID=BIAS; nullopt for everything else. The server checks the ranges.
std::optional<v1::TokenBias> ParseTokenBias(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return std::nullopt;
  int32_t id = 0;
  float bias = 0;
  if (!absl::SimpleAtoi(text.substr(0, equals), &id)) return std::nullopt;
  if (!absl::SimpleAtof(text.substr(equals + 1), &bias) || !std::isfinite(bias)) return std::nullopt;
  v1::TokenBias parsed;
  parsed.set_id(id);
  parsed.set_bias(bias);
  return parsed;
}

CLI::Validator TokenBiasCheck() {
  return CLI::Validator(
      [](std::string& text) {
        return ParseTokenBias(text).has_value() ? std::string()
                                                : "not a token id and its bias such as 42=-100: " + text;
      },
      "ID=BIAS");
}

}  // namespace

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--max-tokens", flags.max_tokens, "most tokens to generate [128]");
  app.add_option("--min-tokens", flags.min_tokens, "the output does not end before this many tokens [0]");
  app.add_option("--temperature", flags.temperature, "0 is greedy [0]");
  app.add_option("--top-k", flags.top_k, "0 keeps all [0]");
  app.add_option("--top-p", flags.top_p, "in (0, 1] [1]");
  app.add_option("--min-p", flags.min_p, "in [0, 1] [0]");
  app.add_option("--repetition-penalty", flags.repetition_penalty, "[1]");
  app.add_option("--frequency-penalty", flags.frequency_penalty, "in [-2, 2] [0]");
  app.add_option("--presence-penalty", flags.presence_penalty, "in [-2, 2] [0]");
  app.add_option("--seed", flags.seed, "the same seed repeats a sampled output [drawn by the router]");
  app.add_option("--logprobs", flags.logprobs, "log-probabilities of the chosen token and of this many top tokens");
  app.add_option("--stop", flags.stop, "text before which the output ends; may be repeated");
  app.add_option("--stop-token-ids", flags.stop_token_ids, "token ids that end the output")->delimiter(',');
  app.add_option("--logit-bias", flags.logit_bias,
                 "from -100, which bans the token, to 100, which forces it; may be repeated")
      ->delimiter(',')
      ->check(TokenBiasCheck());
  app.add_flag("--ignore-eos", flags.ignore_eos, "do not end at the model's end token");
  AddGrammarFlags(app, flags.grammar);
}

void FillSampling(const SamplingFlags& flags, v1::GenerateRequest& request) {
  v1::SamplingParams& sampling = *request.mutable_sampling();
  if (flags.temperature) sampling.set_temperature(*flags.temperature);
  if (flags.top_k) sampling.set_top_k(*flags.top_k);
  if (flags.top_p) sampling.set_top_p(*flags.top_p);
  if (flags.min_p) sampling.set_min_p(*flags.min_p);
  if (flags.repetition_penalty) sampling.set_repetition_penalty(*flags.repetition_penalty);
  if (flags.frequency_penalty) sampling.set_frequency_penalty(*flags.frequency_penalty);
  if (flags.presence_penalty) sampling.set_presence_penalty(*flags.presence_penalty);
  if (flags.seed) sampling.set_seed(*flags.seed);
  if (flags.max_tokens) sampling.set_max_tokens(*flags.max_tokens);
  if (flags.min_tokens) sampling.set_min_tokens(*flags.min_tokens);
  if (flags.logprobs) sampling.set_logprobs(*flags.logprobs);
  sampling.set_ignore_eos(flags.ignore_eos);
  *sampling.mutable_stop_token_ids() = {flags.stop_token_ids.begin(), flags.stop_token_ids.end()};
  for (const std::string& text : flags.logit_bias) {
    if (const auto bias = ParseTokenBias(text)) *sampling.add_logit_bias() = *bias;
  }
  if (v1::Grammar grammar = GrammarOf(flags.grammar); grammar.source_case() != v1::Grammar::SOURCE_NOT_SET) {
    *sampling.mutable_grammar() = std::move(grammar);
  }
  *request.mutable_stop() = {flags.stop.begin(), flags.stop.end()};
}

}  // namespace baton::cli
