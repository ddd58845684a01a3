#include "gateway/kserve_answer.h"

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/utf8.h"
#include "gateway/kserve_model.h"
#include "gateway/kserve_tensors.h"
#include "router/generation_wire.h"

namespace baton::gateway {
namespace {

// What Triton's backend says while the output goes on.
constexpr char kNoFinish[] = "None";

const char* FinishReasonName(FinishReason reason) { return reason == FinishReason::kStop ? "stop" : "length"; }

}  // namespace

std::optional<grpc::ByteBuffer> KserveForm::Begin(const router::GenerationAccepted& accepted) {
  input_tokens_ = accepted.prompt_tokens;
  return std::nullopt;
}

inference::ModelInferResponse KserveForm::Response(bool is_final) const {
  inference::ModelInferResponse response;
  response.set_model_name(answer_.model);
  response.set_model_version(kKserveVersion);
  response.set_id(answer_.id);
  if (answer_.method == KserveMethod::kStreamInfer) {
    (*response.mutable_parameters())["triton_final_response"].set_bool_param(is_final);
  }
  return response;
}

void KserveForm::AddOutputs(const router::GenerationDelta& delta, const char* finish_reason,
                            inference::ModelInferResponse* response) const {
  const KserveOutputs& outputs = answer_.outputs;
  // A stream has no echo.
  if (outputs.text) AddBytesOutput(kTextOutput, absl::StrCat(answer_.echo, delta.text), response);
  if (outputs.finish_reason) AddBytesOutput(kFinishReasonOutput, finish_reason, response);
  if (outputs.num_input_tokens) AddUint32Output(kInputTokensOutput, static_cast<uint32_t>(input_tokens_), response);
  if (outputs.num_output_tokens) {
    AddUint32Output(kOutputTokensOutput, static_cast<uint32_t>(delta.tokens.size()), response);
  }
  if (outputs.token_ids) {
    std::vector<int32_t> ids;
    ids.reserve(delta.tokens.size());
    for (const OutputToken& token : delta.tokens) ids.push_back(token.token);
    AddInt32Output(kTokenIdsOutput, ids, response);
  }
}

grpc::ByteBuffer KserveForm::Wrap(inference::ModelInferResponse response) const {
  if (answer_.method == KserveMethod::kInfer) return router::Serialize(response);
  inference::ModelStreamInferResponse wrapped;
  *wrapped.mutable_infer_response() = std::move(response);
  return router::Serialize(wrapped);
}

grpc::ByteBuffer KserveForm::Chunk(const router::GenerationDelta& delta) {
  inference::ModelInferResponse response = Response(/*is_final=*/false);
  AddOutputs(delta, kNoFinish, &response);
  return Wrap(std::move(response));
}

router::AnswerEnd KserveForm::End(absl::Span<const router::GenerationDelta> outputs,
                                  const router::GenerationFinished& finished) {
  router::AnswerEnd end = {.messages = {}, .status = grpc::Status::OK};
  inference::ModelInferResponse response = Response(/*is_final=*/true);
  const bool has_outputs = !answer_.is_stream || answer_.outputs.finish_reason;
  const router::GenerationDelta none;
  if (has_outputs) {
    AddOutputs(outputs.empty() ? none : outputs.front(), FinishReasonName(finished.reason), &response);
  }
  if (has_outputs || answer_.wants_empty_final) end.messages.push_back(Wrap(std::move(response)));
  return end;
}

router::AnswerEnd KserveForm::End(const absl::Status& status) {
  const absl::Status named = WithKserveNames(status);
  if (answer_.method == KserveMethod::kInfer) {
    return {.messages = {}, .status = router::ToClientStatus(named)};
  }
  inference::ModelStreamInferResponse failed;
  // A message of protobuf takes no other text, and an error may show a part of what the client sent.
  failed.set_error_message(
      DecodeUtf8Lossy(absl::StrCat(absl::StatusCodeToString(named.code()), ": ", named.message())));
  *failed.mutable_infer_response() = Response(/*is_final=*/true);
  return {.messages = {router::Serialize(failed)}, .status = grpc::Status::OK};
}

}  // namespace baton::gateway
