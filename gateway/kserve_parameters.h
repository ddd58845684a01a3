// Reads what a request of KServe's protocol says beside its prompt: the sampling parameters of vLLM, as JSON or as
// parameters of the request, and the parameters of the protocol itself.
#ifndef BATON_GATEWAY_KSERVE_PARAMETERS_H_
#define BATON_GATEWAY_KSERVE_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/map.h"
#include "inference/kserve.pb.h"
#include "router/generation.h"

namespace baton::gateway {

// What Triton's vLLM backend takes where a request does not say how many tokens it wants.
inline constexpr int32_t kKserveMaxTokens = 16;

using KserveParameterMap = google::protobuf::Map<std::string, inference::InferParameter>;

struct KserveParameters {
  router::SamplingRequest sampling;
  std::vector<std::string> stop;
  // How many outputs the prompt gets.
  int32_t choices = 1;
  bool add_special_tokens = true;
  // Baton's, from Triton's.
  int32_t priority = router::kMaxPriority;
  // The client waits no longer than this, from when the request came.
  std::optional<int64_t> timeout_us;
  // A stream's last response has no outputs.
  bool wants_empty_final = false;
};

// `sampling_json` is the input sampling_parameters. A name in both places is an error. Errors are for clients, and name
// the field.
absl::StatusOr<KserveParameters> ReadKserveParameters(const std::optional<std::string>& sampling_json,
                                                      const KserveParameterMap& parameters);

// UNIMPLEMENTED, with the name of what is not built.
absl::Status UnbuiltKserveField(const std::string& field);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_PARAMETERS_H_
