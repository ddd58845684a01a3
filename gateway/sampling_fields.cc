#include "gateway/sampling_fields.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/sampling_params.h"
#include "router/job.h"

namespace baton::gateway {
namespace {

using nlohmann::json;

// {"50256": -100}: the keys of a JSON object are strings. Only one spelling of a number is an id, so that no two keys
// mean the same token.
std::vector<TokenBias> ReadLogitBias(FieldReader& fields) {
  const json* const value = fields.Find("logit_bias");
  if (value == nullptr) return {};
  const auto wrong = [&fields](std::string_view description) {
    fields.Wrong("logit_bias", description);
    return std::vector<TokenBias>();
  };
  if (!value->is_object()) return wrong("must be an object of token ids and numbers");
  std::vector<TokenBias> biases;
  biases.reserve(value->size());
  for (const auto& [key, bias] : value->items()) {
    TokenBias each;
    if (!absl::SimpleAtoi(key, &each.token) || absl::StrCat(each.token) != key) {
      return wrong(absl::StrCat("the key \"", key.substr(0, kMaxShownNameBytes), "\" must be a token id"));
    }
    if (bias.is_number()) each.bias = bias.get<float>();
    if (!bias.is_number() || !std::isfinite(each.bias)) {
      return wrong(absl::StrCat("that of token ", key, " must be a number"));
    }
    biases.push_back(each);
  }
  return biases;
}

}  // namespace

router::SamplingRequest ReadSamplingFields(FieldReader& fields) {
  router::SamplingRequest sampling;
  sampling.temperature = fields.Number("temperature");
  sampling.top_k = fields.Integer("top_k");
  // vLLM says "all" with -1, as OpenAI's clients know it.
  if (sampling.top_k == -1) sampling.top_k = 0;
  sampling.top_p = fields.Number("top_p");
  sampling.min_p = fields.Number("min_p");
  sampling.repetition_penalty = fields.Number("repetition_penalty");
  sampling.frequency_penalty = fields.Number("frequency_penalty");
  sampling.presence_penalty = fields.Number("presence_penalty");
  sampling.seed = fields.Unsigned("seed");
  sampling.max_tokens = fields.Integer("max_tokens");
  sampling.min_tokens = fields.Integer("min_tokens");
  sampling.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  sampling.stop_token_ids = fields.Integers("stop_token_ids");
  sampling.logit_bias = ReadLogitBias(fields);
  return sampling;
}

int32_t ReadPriority(FieldReader& fields) {
  constexpr int32_t kLast = router::kMaxPriority - router::kMinPriority;
  const int32_t priority = fields.Integer("priority").value_or(0);
  if (priority < 0) {
    fields.Wrong("priority", "must not be negative: the lower goes first, and nobody goes before the default, 0");
    return router::kMaxPriority;
  }
  if (priority > kLast) {
    fields.Wrong("priority", absl::StrCat("must be in [0, ", kLast, "]"));
    return router::kMaxPriority;
  }
  return router::kMaxPriority - priority;
}

}  // namespace baton::gateway
