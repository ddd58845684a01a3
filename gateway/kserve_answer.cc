#include "gateway/kserve_answer.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/utf8.h"
#include "gateway/kserve_model.h"
#include "gateway/kserve_tensors.h"
#include "gateway/openai_logprobs.h"
#include "router/generation_wire.h"

namespace baton::gateway {
namespace {

const char* FinishReasonName(FinishReason reason) { return reason == FinishReason::kStop ? "stop" : "length"; }

// From 1, where the token is among the likely ones: what comes of an output says no more of it.
std::optional<int32_t> RankOf(const OutputToken& token) {
  const auto found = std::find_if(token.top.begin(), token.top.end(),
                                  [&](const TopLogprob& each) { return each.token == token.token; });
  if (found == token.top.end()) return std::nullopt;
  return static_cast<int32_t>(found - token.top.begin()) + 1;
}

}  // namespace

std::optional<grpc::ByteBuffer> KserveForm::Begin(const router::GenerationAccepted& accepted) {
  input_tokens_ = accepted.prompt_tokens;
  return std::nullopt;
}

void KserveForm::Count(size_t choice, const router::GenerationDelta& delta) {
  for (const OutputToken& token : delta.tokens) choices_.at(choice).cumulative_logprob += token.logprob;
  if (delta.end.has_value()) choices_.at(choice).finish = FinishReasonName(delta.end->reason);
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

std::string KserveForm::LogprobsOf(const router::GenerationDelta& delta) const {
  if (!answer_.has_logprobs) return "null";
  std::string places;
  for (const OutputToken& token : delta.tokens) {
    absl::StrAppend(
        &places, places.empty() ? "" : ",",
        VllmLogprobs(*answer_.tokenizer, {.token = token.token, .logprob = token.logprob}, RankOf(token), token.top));
  }
  return absl::StrCat("[", places, "]");
}

void KserveForm::AddLogprobs(const Deltas& deltas, inference::ModelInferResponse* response) const {
  if (answer_.outputs.cumulative_logprob) {
    std::vector<float> sums;
    for (const Choice& choice : choices_) sums.push_back(static_cast<float>(choice.cumulative_logprob));
    AddFp32Output(kCumulativeLogprobOutput, sums, response);
  }
  if (answer_.outputs.logprobs) {
    std::vector<std::string> lists;
    for (const router::GenerationDelta* delta : deltas) lists.push_back(LogprobsOf(*delta));
    AddBytesOutput(kLogprobsOutput, lists, response);
  }
}

void KserveForm::AddTokens(const Deltas& deltas, inference::ModelInferResponse* response) const {
  std::vector<uint32_t> counts;
  std::vector<int32_t> ids;
  for (const router::GenerationDelta* delta : deltas) {
    counts.push_back(static_cast<uint32_t>(delta->tokens.size()));
    for (const OutputToken& token : delta->tokens) ids.push_back(token.token);
  }
  if (answer_.outputs.num_output_tokens) AddUint32Output(kOutputTokensOutput, counts, response);
  if (answer_.outputs.token_ids) AddInt32Output(kTokenIdsOutput, ids, response);
}

void KserveForm::AddOutputs(const Deltas& deltas, inference::ModelInferResponse* response) const {
  const KserveOutputs& outputs = answer_.outputs;
  if (outputs.text) {
    std::vector<std::string> texts;
    // A stream has no echo.
    for (const router::GenerationDelta* delta : deltas) texts.push_back(absl::StrCat(answer_.echo, delta->text));
    AddBytesOutput(kTextOutput, texts, response);
  }
  if (outputs.finish_reason) {
    std::vector<std::string> reasons;
    for (const Choice& choice : choices_) reasons.emplace_back(choice.finish);
    AddBytesOutput(kFinishReasonOutput, reasons, response);
  }
  AddLogprobs(deltas, response);
  if (outputs.num_input_tokens) AddUint32Output(kInputTokensOutput, {static_cast<uint32_t>(input_tokens_)}, response);
  AddTokens(deltas, response);
}

grpc::ByteBuffer KserveForm::Wrap(inference::ModelInferResponse response) const {
  if (answer_.method == KserveMethod::kInfer) return router::Serialize(response);
  inference::ModelStreamInferResponse wrapped;
  *wrapped.mutable_infer_response() = std::move(response);
  return router::Serialize(wrapped);
}

grpc::ByteBuffer KserveForm::Chunk(const router::GenerationDelta& delta) {
  const auto choice = static_cast<size_t>(delta.choice);
  Count(choice, delta);
  const router::GenerationDelta none;
  Deltas deltas(choices_.size(), &none);
  deltas.at(choice) = &delta;
  inference::ModelInferResponse response = Response(/*is_final=*/false);
  AddOutputs(deltas, &response);
  return Wrap(std::move(response));
}

router::AnswerEnd KserveForm::End(absl::Span<const router::GenerationDelta> outputs,
                                  const router::GenerationFinished& finished) {
  router::AnswerEnd end = {.messages = {}, .status = grpc::Status::OK};
  inference::ModelInferResponse response = Response(/*is_final=*/true);
  const bool has_outputs = !answer_.is_stream || answer_.outputs.finish_reason;
  if (has_outputs) {
    const router::GenerationDelta none;
    Deltas deltas(choices_.size(), &none);
    for (size_t i = 0; i < outputs.size(); ++i) {
      deltas.at(i) = &outputs[i];
      Count(i, outputs[i]);
    }
    // A request for one choice hears of its end here alone.
    if (finished.choices.empty()) choices_.front().finish = FinishReasonName(finished.reason);
    AddOutputs(deltas, &response);
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
