// Reads the requests of vLLM's engine service. Nothing is silently ignored that would change the tokens: what is not
// built is refused by its name. docs/vllm_grpc.md has the table.
#ifndef BATON_GATEWAY_VLLM_REQUEST_H_
#define BATON_GATEWAY_VLLM_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "router/generation.h"
#include "vllm/engine.pb.h"

namespace baton::gateway {

// Without id, times and trace. Empties parts of the message. `context_length` is that of the served model, which bounds
// the output where the request does not. The errors are for clients, as those of RequestReader.
absl::StatusOr<router::GenerationRequest> ReadVllmRequest(vllm::grpc::engine::GenerateRequest& message,
                                                          int32_t context_length);

// The fields at fault that RequestReader names get the names that they have here.
absl::Status WithVllmNames(const absl::Status& status);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_VLLM_REQUEST_H_
