// What a sequence is asked to produce and what a step reports of it: the types that the engine shares with its parts
// and with the workers' policies.
#ifndef BATON_ENGINE_SEQUENCE_TYPES_H_
#define BATON_ENGINE_SEQUENCE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/output_token.h"
#include "common/sampling_params.h"

namespace baton::engine {

// Never reused within one engine. Smaller is older.
using SequenceId = uint64_t;

struct SequenceSpec {
  std::vector<int32_t> prompt;
  // The last `emitted` ids of `prompt` are outputs already, of an attempt that came to nothing: they count as output
  // for indices, penalties and limits, and as prompt for everything that is KV. Less than prompt.size() and than
  // max_tokens.
  int32_t emitted = 0;
  SamplingParams sampling;
  // Prefix blocks are shared only within one tenant.
  std::string tenant;
  // The sequence ends after its first output (a prefill worker's half). The blocks to hand over stay until Release.
  bool prefill_only = false;
  // The prompt's KV comes from another engine (a decode worker's half): StartDecode follows, not StartPrefill.
  bool pulls_prompt = false;
};

// What a step did for one sequence.
struct StepEvent {
  SequenceId sequence = 0;
  // Prompt tokens whose KV is now in place.
  int32_t computed_tokens = 0;
  // Sequences in the step, and how often this one has been preempted so far.
  int32_t step_sequences = 0;
  int32_t preemptions = 0;
  // Nothing after a chunk in the middle of the prompt.
  std::optional<OutputToken> token;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_SEQUENCE_TYPES_H_
