// Reads the requests of KServe's ModelInfer and ModelStreamInfer, with the inputs and parameters of Triton's vLLM
// backend. Nothing is silently ignored: what is not known, or not built, is refused by its name. docs/kserve.md has the
// tables.
#ifndef BATON_GATEWAY_KSERVE_REQUEST_H_
#define BATON_GATEWAY_KSERVE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "inference/kserve.pb.h"
#include "router/generation.h"

namespace baton::gateway {

enum class KserveMethod : uint8_t { kInfer, kStreamInfer };

// Which outputs each response has.
struct KserveOutputs {
  bool text = true;
  bool finish_reason = false;
  bool num_input_tokens = false;
  bool num_output_tokens = false;
  bool cumulative_logprob = false;
  bool logprobs = false;
  bool token_ids = false;
};

struct KserveRequest {
  // Without id, times and trace.
  router::GenerationRequest generation;
  // The client waits no longer than this, from when the request came.
  std::optional<int64_t> timeout_us;
  // A response for each delta.
  bool is_stream = false;
  // A stream's last response has no outputs.
  bool wants_empty_final = false;
  // The client says how many likely tokens it wants of each place. Without that, its output `logprobs` says nothing.
  bool has_logprobs = false;
  // Goes before the output of what is no stream.
  std::string echo;
  KserveOutputs outputs;
};

// Empties parts of the message. The errors are for clients, as those of RequestReader.
absl::StatusOr<KserveRequest> ReadKserveRequest(KserveMethod method, inference::ModelInferRequest& message);

// The fields at fault that RequestReader names get the names that they have here.
absl::Status WithKserveNames(const absl::Status& status);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_REQUEST_H_
