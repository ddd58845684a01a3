#include "common/sampling_params.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/plain_number.h"
#include "common/status.h"

namespace baton {
namespace {

struct Range {
  double low;
  double high;
  bool low_open = false;
};

// Written so that NaN fails.
absl::Status CheckRange(const char* field, double value, const Range& range) {
  const bool above = range.low_open ? value > range.low : value >= range.low;
  if (above && value <= range.high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": must be ", range.low_open ? "above " : "from ",
                                                 PlainNumber(range.low), range.low_open ? " and at most " : " to ",
                                                 PlainNumber(range.high), ", not ", PlainNumber(value)));
}

absl::Status LogitBiasError(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("logit_bias: ", what));
}

absl::Status CheckLogitBias(const std::vector<TokenBias>& biases, int32_t vocab_size) {
  if (biases.size() > kMaxLogitBiases) {
    return LogitBiasError(absl::StrCat("at most ", kMaxLogitBiases, " tokens, not ", biases.size()));
  }
  const TokenBias* before = nullptr;
  for (const TokenBias& each : biases) {
    if (each.token < 0 || each.token >= vocab_size) {
      return LogitBiasError(absl::StrCat("token ", each.token, " is not in [0, ", vocab_size, ")"));
    }
    if (!(std::abs(each.bias) <= kMaxLogitBias)) {
      return LogitBiasError(absl::StrCat("that of token ", each.token, " must be from ", PlainNumber(-kMaxLogitBias),
                                         " to ", PlainNumber(kMaxLogitBias), ", not ", PlainNumber(each.bias)));
    }
    if (before != nullptr && before->token >= each.token) {
      return LogitBiasError(before->token == each.token
                                ? absl::StrCat("token ", each.token, " is there more than once")
                                : absl::StrCat("token ", each.token, " comes behind ", before->token));
    }
    before = &each;
  }
  return absl::OkStatus();
}

absl::Status CheckPooling(const SamplingParams& p) {
  BATON_RETURN_IF_ERROR(CheckRange("pooling", static_cast<int>(p.pooling), {0, static_cast<int>(Pooling::kMean)}));
  if (p.pooling == Pooling::kNone) return absl::OkStatus();
  if (p.max_tokens != 1) return absl::InvalidArgumentError("max_tokens: must be 1 where an embedding is asked for");
  if (p.prompt_logprobs < 0) return absl::OkStatus();
  return absl::InvalidArgumentError("prompt_logprobs: must be left out where an embedding is asked for");
}

// A field that asks for more output beyond what the grammar allows would leave the sampler without a token.
absl::Status CheckGrammar(const SamplingParams& p) {
  if (p.grammar.empty()) return absl::OkStatus();
  if (p.grammar.text.size() > kMaxGrammarBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("grammar: at most ", kMaxGrammarBytes, " bytes, not ", p.grammar.text.size()));
  }
  constexpr std::string_view kWhy = "must be left out beside a grammar, which says when the output may end";
  if (p.ignore_eos) return absl::InvalidArgumentError(absl::StrCat("ignore_eos: ", ToAbsl(kWhy)));
  if (p.min_tokens > 0) return absl::InvalidArgumentError(absl::StrCat("min_tokens: ", ToAbsl(kWhy)));
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSamplingParams(const SamplingParams& p, int32_t vocab_size) {
  BATON_RETURN_IF_ERROR(CheckRange("temperature", p.temperature, {0, 100}));
  BATON_RETURN_IF_ERROR(CheckRange("top_k", p.top_k, {0, kMaxTopK}));
  BATON_RETURN_IF_ERROR(CheckRange("top_p", p.top_p, {0, 1, true}));
  BATON_RETURN_IF_ERROR(CheckRange("min_p", p.min_p, {0, 1}));
  BATON_RETURN_IF_ERROR(CheckRange("repetition_penalty", p.repetition_penalty, {0, 100, true}));
  BATON_RETURN_IF_ERROR(CheckRange("frequency_penalty", p.frequency_penalty, {-2, 2}));
  BATON_RETURN_IF_ERROR(CheckRange("presence_penalty", p.presence_penalty, {-2, 2}));
  BATON_RETURN_IF_ERROR(CheckRange("max_tokens", p.max_tokens, {1, kMaxOutputTokens}));
  BATON_RETURN_IF_ERROR(CheckRange("min_tokens", p.min_tokens, {0, static_cast<double>(p.max_tokens)}));
  BATON_RETURN_IF_ERROR(CheckRange("logprobs", p.logprobs, {-1, kMaxLogprobs}));
  BATON_RETURN_IF_ERROR(CheckRange("prompt_logprobs", p.prompt_logprobs, {-1, kMaxLogprobs}));
  BATON_RETURN_IF_ERROR(
      CheckRange("stop_token_ids", static_cast<double>(p.stop_token_ids.size()), {0, kMaxStopTokenIds}));
  for (int32_t id : p.stop_token_ids) {
    BATON_RETURN_IF_ERROR(CheckRange("stop_token_ids", id, {0, static_cast<double>(vocab_size) - 1}));
  }
  BATON_RETURN_IF_ERROR(CheckPooling(p));
  BATON_RETURN_IF_ERROR(CheckLogitBias(p.logit_bias, vocab_size));
  return CheckGrammar(p);
}

}  // namespace baton
