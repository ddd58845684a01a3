#include "gateway/kserve_model.h"

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "gateway/field_reader.h"

namespace baton::gateway {
namespace {

constexpr char kPlatform[] = "baton";
constexpr int64_t kAnySize = -1;

struct TensorRow {
  const char* name;
  const char* datatype;
  inference::DataType config_type;
  int64_t size = 1;
  bool optional = true;
};

constexpr TensorRow kInputRows[] = {
    {.name = kTextInput, .datatype = kBytesType, .config_type = inference::TYPE_STRING, .optional = false},
    {kStreamInput, kBoolType, inference::TYPE_BOOL},
    {kSamplingInput, kBytesType, inference::TYPE_STRING},
    {kExcludeInput, kBoolType, inference::TYPE_BOOL},
    {kReturnFinishReason, kBoolType, inference::TYPE_BOOL},
    {kReturnInputTokens, kBoolType, inference::TYPE_BOOL},
    {kReturnOutputTokens, kBoolType, inference::TYPE_BOOL},
    {kReturnCumulativeLogprob, kBoolType, inference::TYPE_BOOL},
    {kReturnLogprobs, kBoolType, inference::TYPE_BOOL},
    {kReturnTokenIds, kBoolType, inference::TYPE_BOOL},
};

// Those of any size have an element for each of a request's outputs.
constexpr TensorRow kOutputRows[] = {
    {kTextOutput, kBytesType, inference::TYPE_STRING, kAnySize},
    {kFinishReasonOutput, kBytesType, inference::TYPE_STRING, kAnySize},
    {kCumulativeLogprobOutput, kFp32Type, inference::TYPE_FP32, kAnySize},
    {kLogprobsOutput, kBytesType, inference::TYPE_STRING, kAnySize},
    {kInputTokensOutput, kUint32Type, inference::TYPE_UINT32},
    {kOutputTokensOutput, kUint32Type, inference::TYPE_UINT32, kAnySize},
    {kTokenIdsOutput, kInt32Type, inference::TYPE_INT32, kAnySize},
};

void Describe(const TensorRow& row, inference::ModelMetadataResponse::TensorMetadata* tensor) {
  tensor->set_name(row.name);
  tensor->set_datatype(row.datatype);
  tensor->add_shape(row.size);
}

}  // namespace

absl::Status CheckKserveModel(const router::ServedModel& model, const std::string& name, const std::string& version) {
  if (!name.empty() && name != model.name) {
    return absl::NotFoundError(
        absl::StrCat("model ", name.substr(0, kMaxShownNameBytes), " is not served here; ", model.name, " is"));
  }
  if (version.empty() || version == kKserveVersion) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("version ", version.substr(0, kMaxShownNameBytes), " of ", model.name,
                                          " is not served here; ", kKserveVersion, " is"));
}

inference::ServerMetadataResponse KserveServerMetadata() {
  inference::ServerMetadataResponse response;
  response.set_name("baton");
  response.set_version(kVersion);
  response.add_extensions("model_configuration");
  return response;
}

inference::ModelMetadataResponse KserveModelMetadata(const std::string& model) {
  inference::ModelMetadataResponse response;
  response.set_name(model);
  response.add_versions(kKserveVersion);
  response.set_platform(kPlatform);
  for (const TensorRow& row : kInputRows) Describe(row, response.add_inputs());
  for (const TensorRow& row : kOutputRows) Describe(row, response.add_outputs());
  return response;
}

inference::ModelConfigResponse KserveModelConfig(const std::string& model) {
  inference::ModelConfigResponse response;
  inference::ModelConfig* const config = response.mutable_config();
  config->set_name(model);
  config->set_platform(kPlatform);
  config->set_backend(kPlatform);
  for (const TensorRow& row : kInputRows) {
    inference::ModelInput* const input = config->add_input();
    input->set_name(row.name);
    input->set_data_type(row.config_type);
    input->add_dims(row.size);
    input->set_optional(row.optional);
  }
  for (const TensorRow& row : kOutputRows) {
    inference::ModelOutput* const output = config->add_output();
    output->set_name(row.name);
    output->set_data_type(row.config_type);
    output->add_dims(row.size);
  }
  config->mutable_model_transaction_policy()->set_decoupled(true);
  return response;
}

inference::RepositoryIndexResponse KserveIndex(const std::string& model, bool is_ready, bool only_ready) {
  inference::RepositoryIndexResponse response;
  if (only_ready && !is_ready) return response;
  inference::RepositoryIndexResponse::ModelIndex* const index = response.add_models();
  index->set_name(model);
  index->set_version(kKserveVersion);
  index->set_state(is_ready ? "READY" : "UNAVAILABLE");
  if (!is_ready) index->set_reason("the workers that would serve it are not there");
  return response;
}

}  // namespace baton::gateway
