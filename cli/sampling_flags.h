// The sampling flags of `generate` and `chat`. They write straight into the request.
#ifndef BATON_CLI_SAMPLING_FLAGS_H_
#define BATON_CLI_SAMPLING_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "baton/v1/generation.pb.h"
#include "cli/grammar_flags.h"

namespace baton::cli {

// A flag that is not set leaves its field out, and the server's default holds. The server checks the ranges.
struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
  std::optional<int32_t> top_k, max_tokens, min_tokens, logprobs;
  std::optional<uint64_t> seed;
  std::vector<int32_t> stop_token_ids;
  // Each as ID=BIAS, which the parser has checked.
  std::vector<std::string> logit_bias;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  GrammarFlags grammar;
};

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags);
void FillSampling(const SamplingFlags& flags, v1::GenerateRequest& request);

}  // namespace baton::cli

#endif  // BATON_CLI_SAMPLING_FLAGS_H_
