#include "router/poisoned_requests.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::router {
namespace {

Digest128 DigestOf(const JobSpec& job) {
  const SamplingParams& sampling = job.sampling;
  const std::string parameters = absl::StrCat(
      absl::StrJoin({sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty,
                     sampling.frequency_penalty, sampling.presence_penalty},
                    " "),
      " ",
      absl::StrJoin({sampling.top_k, sampling.max_tokens, sampling.min_tokens, sampling.logprobs,
                     sampling.prompt_logprobs, static_cast<int32_t>(sampling.pooling), sampling.ignore_eos ? 1 : 0},
                    " "),
      " ", absl::StrJoin(sampling.stop_token_ids, " "), " ",
      absl::StrJoin(sampling.logit_bias, " ",
                    [](std::string* out, const TokenBias& each) { absl::StrAppend(out, each.token, ":", each.bias); }),
      " ", static_cast<int>(sampling.grammar.kind), " ", sampling.grammar.text);
  const Digest128 prompt =
      DigestBytes(job.prompt.data(), static_cast<size_t>(job.client_prompt_tokens()) * sizeof(int32_t));
  return DigestChain(prompt, parameters.data(), parameters.size());
}

}  // namespace

void PoisonedRequests::Add(const JobSpec& job) {
  if (refused_.size() == kMaxKept) refused_.pop_front();
  refused_.emplace_back(After(clock_.Now(), kRefusalMs), DigestOf(job));
}

bool PoisonedRequests::Contains(const JobSpec& job) {
  while (!refused_.empty() && refused_.front().first <= clock_.Now()) refused_.pop_front();
  if (refused_.empty()) return false;
  const Digest128 digest = DigestOf(job);
  return std::any_of(refused_.begin(), refused_.end(), [&](const auto& refused) { return refused.second == digest; });
}

}  // namespace baton::router
