#include "gateway/kserve_request.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/field_reader.h"
#include "gateway/kserve_model.h"
#include "gateway/kserve_parameters.h"
#include "gateway/kserve_tensors.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using router::FieldViolation;

// The inputs as they came.
struct Inputs {
  std::optional<std::string> text;
  std::optional<std::string> sampling;
  std::optional<bool> stream;
  std::optional<bool> excludes_input;
  std::optional<bool> finish_reason;
  std::optional<bool> num_input_tokens;
  std::optional<bool> num_output_tokens;
  std::optional<bool> token_ids;
  std::optional<bool> cumulative_logprob;
  std::optional<bool> logprobs;
};

struct BytesRow {
  const char* name;
  std::optional<std::string> Inputs::*field;
};
struct BoolRow {
  const char* name;
  std::optional<bool> Inputs::*field;
};

constexpr BytesRow kBytesRows[] = {{kTextInput, &Inputs::text}, {kSamplingInput, &Inputs::sampling}};
constexpr BoolRow kBoolRows[] = {{kStreamInput, &Inputs::stream},
                                 {kExcludeInput, &Inputs::excludes_input},
                                 {kReturnFinishReason, &Inputs::finish_reason},
                                 {kReturnInputTokens, &Inputs::num_input_tokens},
                                 {kReturnOutputTokens, &Inputs::num_output_tokens},
                                 {kReturnTokenIds, &Inputs::token_ids},
                                 {kReturnCumulativeLogprob, &Inputs::cumulative_logprob},
                                 {kReturnLogprobs, &Inputs::logprobs}};
constexpr const char* kUnbuiltInputs[] = {"image", "embedding_request"};

absl::Status ReadInput(KserveTensors& tensors, size_t index, Inputs& inputs) {
  const std::string& name = tensors.name(index);
  const auto twice = [&name] { return FieldViolation(name, "is given twice"); };
  for (const BytesRow& row : kBytesRows) {
    if (name != row.name) continue;
    if ((inputs.*row.field).has_value()) return twice();
    BATON_ASSIGN_OR_RETURN(inputs.*row.field, tensors.TakeBytes(index));
    return absl::OkStatus();
  }
  for (const BoolRow& row : kBoolRows) {
    if (name != row.name) continue;
    if ((inputs.*row.field).has_value()) return twice();
    BATON_ASSIGN_OR_RETURN(inputs.*row.field, tensors.ReadBool(index));
    return absl::OkStatus();
  }
  for (const char* unbuilt : kUnbuiltInputs) {
    if (name == unbuilt) return UnbuiltKserveField(name);
  }
  return FieldViolation(name.substr(0, kMaxShownNameBytes), "this input is not known");
}

absl::StatusOr<Inputs> ReadInputs(inference::ModelInferRequest& message) {
  BATON_ASSIGN_OR_RETURN(KserveTensors tensors, KserveTensors::Create(message));
  Inputs inputs;
  for (size_t i = 0; i < tensors.size(); ++i) BATON_RETURN_IF_ERROR(ReadInput(tensors, i, inputs));
  if (!inputs.text.has_value()) return FieldViolation(kTextInput, "must be given");
  return inputs;
}

struct OutputRow {
  const char* name;
  bool KserveOutputs::*field;
};
constexpr OutputRow kOutputFields[] = {{kTextOutput, &KserveOutputs::text},
                                       {kFinishReasonOutput, &KserveOutputs::finish_reason},
                                       {kInputTokensOutput, &KserveOutputs::num_input_tokens},
                                       {kOutputTokensOutput, &KserveOutputs::num_output_tokens},
                                       {kCumulativeLogprobOutput, &KserveOutputs::cumulative_logprob},
                                       {kLogprobsOutput, &KserveOutputs::logprobs},
                                       {kTokenIdsOutput, &KserveOutputs::token_ids}};

absl::Status ReadOutput(const inference::ModelInferRequest::InferRequestedOutputTensor& output,
                        KserveOutputs& outputs) {
  if (!output.parameters().empty()) {
    return UnbuiltKserveField(absl::StrCat("outputs.parameters.", output.parameters().begin()->first));
  }
  for (const OutputRow& row : kOutputFields) {
    if (output.name() != row.name) continue;
    outputs.*row.field = true;
    return absl::OkStatus();
  }
  return FieldViolation(absl::StrCat("outputs.", output.name().substr(0, kMaxShownNameBytes)),
                        "this output is not known");
}

// Those that are named and no others, or else those that the inputs ask for.
absl::StatusOr<KserveOutputs> ReadOutputs(const inference::ModelInferRequest& message, const Inputs& inputs) {
  if (message.outputs().empty()) {
    return KserveOutputs{.finish_reason = inputs.finish_reason.value_or(false),
                         .num_input_tokens = inputs.num_input_tokens.value_or(false),
                         .num_output_tokens = inputs.num_output_tokens.value_or(false),
                         .cumulative_logprob = inputs.cumulative_logprob.value_or(false),
                         .logprobs = inputs.logprobs.value_or(false),
                         .token_ids = inputs.token_ids.value_or(false)};
  }
  KserveOutputs outputs = {.text = false};
  for (const auto& output : message.outputs()) BATON_RETURN_IF_ERROR(ReadOutput(output, outputs));
  return outputs;
}

absl::Status ReadMode(KserveMethod method, const Inputs& inputs, KserveRequest& request) {
  request.is_stream = inputs.stream.value_or(false);
  if (request.is_stream && method == KserveMethod::kInfer) {
    return FieldViolation(kStreamInput, "ModelInfer has one response: call ModelStreamInfer for a stream");
  }
  const bool echoes = !inputs.excludes_input.value_or(request.is_stream);
  if (echoes && request.is_stream) return FieldViolation(kExcludeInput, "must be true for a stream");
  if (echoes) request.echo = *inputs.text;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KserveRequest> ReadKserveRequest(KserveMethod method, inference::ModelInferRequest& message) {
  BATON_ASSIGN_OR_RETURN(Inputs inputs, ReadInputs(message));
  KserveRequest request;
  BATON_RETURN_IF_ERROR(ReadMode(method, inputs, request));
  BATON_ASSIGN_OR_RETURN(request.outputs, ReadOutputs(message, inputs));
  BATON_ASSIGN_OR_RETURN(KserveParameters parameters, ReadKserveParameters(inputs.sampling, message.parameters()));
  request.timeout_us = parameters.timeout_us;
  request.wants_empty_final = parameters.wants_empty_final;
  router::GenerationRequest& generation = request.generation;
  generation.model = std::move(*message.mutable_model_name());
  generation.prompt =
      router::TextPrompt{.text = *std::move(inputs.text), .add_special_tokens = parameters.add_special_tokens};
  generation.sampling = std::move(parameters.sampling);
  request.has_logprobs = generation.sampling.logprobs.has_value();
  if (request.outputs.cumulative_logprob && !request.has_logprobs) generation.sampling.logprobs = 0;
  generation.choices = parameters.choices;
  generation.stop = std::move(parameters.stop);
  generation.priority = parameters.priority;
  return request;
}

absl::Status WithKserveNames(const absl::Status& status) {
  const std::optional<router::FieldError> error = router::GetFieldError(status);
  if (!error.has_value()) return status;
  std::string field = error->field;
  if (absl::StartsWith(field, "sampling.")) field.erase(0, std::string_view("sampling.").size());
  if (field == "text" || field == "prompt") field = kTextInput;
  return router::WithField(status, field);
}

}  // namespace baton::gateway
