// What a sequence is asked for and what a step says of it: the words that the engine shares with its parts and with the
// workers' policies.
#ifndef BATON_ENGINE_SEQUENCE_TYPES_H_
#define BATON_ENGINE_SEQUENCE_TYPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/sampling_params.h"

namespace baton::engine {

// Never reused within one engine. Smaller is older.
using SequenceId = uint64_t;

enum class FinishReason : uint8_t { kNone = 0, kStop = 1, kLength = 2 };

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

struct SampledToken {
  int32_t token = 0;
  // Set when the request asks for log-probabilities: of the chosen token under the model's own distribution (before
  // temperature and penalties), and of the most likely ones, best first.
  float logprob = 0;
  std::vector<TokenLogprob> top = {};
};

struct SequenceSpec {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  // Prefix blocks are shared only within one tenant.
  std::string tenant;
  // The sequence ends after its first output (a prefill worker's half). What is handed over stays until Release.
  bool prefill_only = false;
  // The prompt's KV comes from another engine (a decode worker's half): StartDecode follows, not StartPrefill.
  bool pulls_prompt = false;
};

// What a step did for one sequence.
struct StepEvent {
  SequenceId sequence = 0;
  // Prompt tokens whose KV is now in place (also without a token: a chunk in the middle).
  int32_t computed_tokens = 0;
  bool has_token = false;
  int32_t token_index = 0;
  SampledToken token;
  FinishReason finish = FinishReason::kNone;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_SEQUENCE_TYPES_H_
