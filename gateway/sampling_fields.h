// The sampling parameters in a JSON object of a client, by the names that OpenAI and vLLM give them.
#ifndef BATON_GATEWAY_SAMPLING_FIELDS_H_
#define BATON_GATEWAY_SAMPLING_FIELDS_H_

#include <cstdint>

#include "gateway/field_reader.h"
#include "router/generation.h"

namespace baton::gateway {

// All but log-probabilities, which each API asks for in its own way. What is wrong shows in the reader's status.
router::SamplingRequest ReadSamplingFields(FieldReader& fields);

// vLLM's `priority`, of which the lower goes first, as a GenerationRequest has it. The default, 0, is the lowest that
// is taken, so nobody goes before it.
int32_t ReadPriority(FieldReader& fields);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_SAMPLING_FIELDS_H_
