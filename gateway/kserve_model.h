// The tensors of the served model as KServe's protocol describes them: the names, types and meanings are those of
// Triton's vLLM backend, so that its clients work unchanged; `token_ids` and `return_token_ids` are Baton's own.
#ifndef BATON_GATEWAY_KSERVE_MODEL_H_
#define BATON_GATEWAY_KSERVE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "inference/kserve.pb.h"
#include "router/served_model.h"

namespace baton::gateway {

inline constexpr char kTextInput[] = "text_input";
inline constexpr char kStreamInput[] = "stream";
inline constexpr char kSamplingInput[] = "sampling_parameters";
inline constexpr char kExcludeInput[] = "exclude_input_in_output";
inline constexpr char kReturnFinishReason[] = "return_finish_reason";
inline constexpr char kReturnInputTokens[] = "return_num_input_tokens";
inline constexpr char kReturnOutputTokens[] = "return_num_output_tokens";
inline constexpr char kReturnLogprobs[] = "return_logprobs";
inline constexpr char kReturnCumulativeLogprob[] = "return_cumulative_logprob";
inline constexpr char kReturnTokenIds[] = "return_token_ids";

inline constexpr char kTextOutput[] = "text_output";
inline constexpr char kFinishReasonOutput[] = "finish_reason";
inline constexpr char kInputTokensOutput[] = "num_input_tokens";
inline constexpr char kOutputTokensOutput[] = "num_output_tokens";
inline constexpr char kLogprobsOutput[] = "logprobs";
inline constexpr char kCumulativeLogprobOutput[] = "cumulative_logprob";
inline constexpr char kTokenIdsOutput[] = "token_ids";

// The one version of the model.
inline constexpr char kKserveVersion[] = "1";

// The names of types in requests and responses.
inline constexpr char kBytesType[] = "BYTES";
inline constexpr char kBoolType[] = "BOOL";
inline constexpr char kUint32Type[] = "UINT32";
inline constexpr char kInt32Type[] = "INT32";
inline constexpr char kFp32Type[] = "FP32";

// NOT_FOUND for another model or version than the served one. An empty name or version stands for that.
absl::Status CheckKserveModel(const router::ServedModel& model, const std::string& name, const std::string& version);

inference::ServerMetadataResponse KserveServerMetadata();
inference::ModelMetadataResponse KserveModelMetadata(const std::string& model);
inference::ModelConfigResponse KserveModelConfig(const std::string& model);
// `is_ready` says whether the workers can serve.
inference::RepositoryIndexResponse KserveIndex(const std::string& model, bool is_ready, bool only_ready);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_KSERVE_MODEL_H_
