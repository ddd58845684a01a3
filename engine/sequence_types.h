// What a sequence is asked to produce and what a step reports of it: the types that the engine shares with its parts
// and with the workers' policies.
#ifndef BATON_ENGINE_SEQUENCE_TYPES_H_
#define BATON_ENGINE_SEQUENCE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/ids.h"
#include "common/kv_origin.h"
#include "common/output_token.h"
#include "common/prompt_logprob.h"
#include "common/sampling_params.h"

namespace baton::engine {

// Never reused within one engine. Smaller is older.
using SequenceId = uint64_t;

// engine.h has the table of states.
enum class SequenceState : uint8_t { kReserved, kPrefill, kDecode, kPreempted, kFinished };

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
  // The workers that this KV came through, in order; the last one is that engine's. Cached blocks of others are not
  // used, but for what this engine has computed.
  std::vector<KvOrigin> origins = {};
  // The sequence has steps of its own until it has given so many outputs here: if one of them kills the process, no
  // other sequence was in it.
  int32_t alone_outputs = 0;
  // Whom a step with this sequence is for (WorkNote).
  JobKey job = {};
};

// What a sequence holds.
struct HeldBlocks {
  SequenceId sequence = 0;
  JobKey job;
  SequenceState state = SequenceState::kReserved;
  // Distinct blocks that it refers to, and those that are promised to it.
  int32_t blocks = 0;
  // The blocks among them that no older sequence holds.
  int32_t own_blocks = 0;
};

// What all sequences of an engine and their blocks come to.
struct EngineLoad {
  int32_t total_blocks = 0;
  // Blocks that are neither referred to nor cached nor promised.
  int32_t free_blocks = 0;
  // Distinct blocks that sequences refer to, and promised ones.
  int32_t used_blocks = 0;
  // Blocks that the prefix cache alone holds, and gives up when they are needed.
  int32_t cached_blocks = 0;
  int32_t running = 0;
  int32_t preempted = 0;
  // Sequences that have their blocks and have not started.
  int32_t reserved = 0;
  // Blocks from this one on were never used.
  int32_t touched_end = 0;
  // Prompt tokens of reserved and running sequences that are not computed yet.
  int64_t pending_prompt_tokens = 0;
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
  // The log-probabilities of the prompt's tokens from the place `first_prompt` on, where they are asked for; valid as
  // long as the event.
  int32_t first_prompt = 0;
  absl::Span<const PromptLogprob> prompt = {};
};

// How far a step that still runs is with the rows of a prompt.
struct LayerEvent {
  SequenceId sequence = 0;
  // The first layers of the model, whose KV of these rows is in place, and those of the event before.
  int32_t layers = 0;
  int32_t layers_before = 0;
  // Tokens whose KV is in place once the step has ended.
  int32_t computed_tokens = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_SEQUENCE_TYPES_H_
