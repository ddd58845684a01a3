#include "gateway/vllm_request.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/output_grammar.h"
#include "common/status.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using router::FieldViolation;
using vllm::grpc::engine::GenerateRequest;

constexpr std::string_view kSamplingPrefix = "sampling_params.";

absl::Status RefuseIf(bool asks, std::string_view field) {
  if (!asks) return absl::OkStatus();
  return router::FieldStatus(absl::StatusCode::kUnimplemented,
                             {.field = std::string(field), .description = "not supported yet"});
}

absl::Status CheckUnbuiltFields(const GenerateRequest& message) {
  const vllm::grpc::engine::SamplingParams& sampling = message.sampling_params();
  BATON_RETURN_IF_ERROR(RefuseIf(message.has_kv_transfer_params(), "kv_transfer_params"));
  BATON_RETURN_IF_ERROR(RefuseIf(message.has_kv_transfer_params_json(), "kv_transfer_params_json"));
  BATON_RETURN_IF_ERROR(RefuseIf(message.has_mm_inputs(), "mm_inputs"));
  BATON_RETURN_IF_ERROR(RefuseIf(message.extra_mm_inputs_size() > 0, "extra_mm_inputs"));
  BATON_RETURN_IF_ERROR(RefuseIf(message.has_media_refs(), "media_refs"));
  // The router is the one rank.
  BATON_RETURN_IF_ERROR(RefuseIf(message.data_parallel_rank() != 0, "data_parallel_rank"));
  BATON_RETURN_IF_ERROR(RefuseIf(sampling.has_truncate_prompt_tokens(), "sampling_params.truncate_prompt_tokens"));
  return RefuseIf(sampling.has_structural_tag(), "sampling_params.structural_tag");
}

OutputGrammar ReadConstraint(const vllm::grpc::engine::SamplingParams& params) {
  using Params = vllm::grpc::engine::SamplingParams;
  switch (params.constraint_case()) {
    case Params::kJsonSchema:
      return {.kind = GrammarKind::kJsonSchema, .text = params.json_schema()};
    case Params::kRegex:
      return {.kind = GrammarKind::kRegex, .text = params.regex()};
    case Params::kGrammar:
      return {.kind = GrammarKind::kEbnf, .text = params.grammar()};
    case Params::kJsonObject:
      return {.kind = params.json_object() ? GrammarKind::kJsonObject : GrammarKind::kNone};
    case Params::kChoice:
      return ChoiceGrammar({params.choice().choices().begin(), params.choice().choices().end()});
    case Params::kStructuralTag:
    case Params::CONSTRAINT_NOT_SET:
      return {};
  }
  return {};
}

absl::StatusOr<int32_t> ToSigned(uint32_t value, std::string_view field) {
  if (value <= static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) return static_cast<int32_t>(value);
  return FieldViolation(field, absl::StrCat("is too large: ", value));
}

absl::StatusOr<std::vector<int32_t>> ToIds(const google::protobuf::RepeatedField<uint32_t>& values,
                                           std::string_view field) {
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(values.size()));
  for (const uint32_t value : values) {
    BATON_ASSIGN_OR_RETURN(const int32_t id, ToSigned(value, field));
    ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<int32_t> ReadChoices(uint32_t n) {
  if (n <= kMaxChoices) return n == 0 ? 1 : static_cast<int32_t>(n);
  return FieldViolation("sampling_params.n", absl::StrCat("must be in [1, ", kMaxChoices, "]"));
}

// vLLM's defaults take the place of the model's.
absl::StatusOr<router::SamplingRequest> ReadVllmSampling(const vllm::grpc::engine::SamplingParams& params,
                                                         int32_t context_length) {
  router::SamplingRequest sampling;
  sampling.temperature = params.has_temperature() ? params.temperature() : 1.0F;
  sampling.top_p = params.top_p() != 0 ? params.top_p() : 1.0F;
  BATON_ASSIGN_OR_RETURN(sampling.top_k, ToSigned(params.top_k(), "sampling_params.top_k"));
  sampling.min_p = params.min_p();
  sampling.frequency_penalty = params.frequency_penalty();
  sampling.presence_penalty = params.presence_penalty();
  sampling.repetition_penalty = params.repetition_penalty() != 0 ? params.repetition_penalty() : 1.0F;
  sampling.max_tokens = std::min(context_length, kMaxOutputTokens);
  if (params.has_max_tokens()) {
    BATON_ASSIGN_OR_RETURN(sampling.max_tokens, ToSigned(params.max_tokens(), "sampling_params.max_tokens"));
  }
  BATON_ASSIGN_OR_RETURN(sampling.min_tokens, ToSigned(params.min_tokens(), "sampling_params.min_tokens"));
  BATON_ASSIGN_OR_RETURN(sampling.stop_token_ids, ToIds(params.stop_token_ids(), "sampling_params.stop_token_ids"));
  sampling.ignore_eos = params.ignore_eos();
  if (params.has_logprobs()) sampling.logprobs = params.logprobs();
  if (params.has_prompt_logprobs()) sampling.prompt_logprobs = params.prompt_logprobs();
  if (params.has_seed()) {
    if (params.seed() < 0) return FieldViolation("sampling_params.seed", "must not be negative");
    sampling.seed = static_cast<uint64_t>(params.seed());
  }
  sampling.grammar = ReadConstraint(params);
  sampling.grammar_field = "sampling_params.constraint";
  for (const auto& [token, bias] : params.logit_bias()) sampling.logit_bias.push_back({.token = token, .bias = bias});
  return sampling;
}

}  // namespace

absl::StatusOr<router::GenerationRequest> ReadVllmRequest(GenerateRequest& message, int32_t context_length) {
  BATON_RETURN_IF_ERROR(CheckUnbuiltFields(message));
  router::GenerationRequest request;
  if (message.has_tokenized()) {
    BATON_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ToIds(message.tokenized().input_ids(), "tokenized.input_ids"));
    request.prompt = router::TokenPrompt{.ids = std::move(ids)};
  } else if (message.has_text()) {
    request.prompt = router::TextPrompt{.text = std::move(*message.mutable_text())};
  } else {
    return FieldViolation("input", "must be given: tokenized or text");
  }
  BATON_ASSIGN_OR_RETURN(request.sampling, ReadVllmSampling(message.sampling_params(), context_length));
  BATON_ASSIGN_OR_RETURN(request.choices, ReadChoices(message.sampling_params().n()));
  for (std::string& stop : *message.mutable_sampling_params()->mutable_stop()) request.stop.push_back(std::move(stop));
  return request;
}

absl::Status WithVllmNames(const absl::Status& status) {
  const std::optional<router::FieldError> error = router::GetFieldError(status);
  if (!error.has_value()) return status;
  constexpr std::string_view kReadersPrefix = "sampling.";
  std::string field = error->field;
  if (absl::StartsWith(field, ToAbsl(kReadersPrefix))) field.replace(0, kReadersPrefix.size(), kSamplingPrefix);
  if (field == "stop") field = absl::StrCat(ToAbsl(kSamplingPrefix), field);
  if (field == "token_ids") field = "tokenized.input_ids";
  if (field == "prompt") field = "input";
  return router::WithField(status, field);
}

}  // namespace baton::gateway
