#include "gateway/vllm_answer.h"

#include "gateway/vllm_request.h"
#include "router/generation_wire.h"

namespace baton::gateway {
namespace {

using vllm::grpc::engine::GenerateResponse;

void FillLogprobs(const router::GenerationDelta& delta, vllm::grpc::engine::OutputLogProbs* proto) {
  for (const OutputToken& token : delta.tokens) {
    proto->add_token_logprobs(token.logprob);
    proto->add_token_ids(static_cast<uint32_t>(token.token));
    if (token.top.empty()) continue;
    vllm::grpc::engine::TopLogProbs* const top = proto->add_top_logprobs();
    for (const TopLogprob& likely : token.top) {
      top->add_values(likely.logprob);
      top->add_token_ids(static_cast<uint32_t>(likely.token));
    }
  }
}

}  // namespace

std::optional<grpc::ByteBuffer> VllmForm::Begin(const router::GenerationAccepted& accepted) {
  prompt_tokens_ = static_cast<uint32_t>(accepted.prompt_tokens);
  return std::nullopt;
}

grpc::ByteBuffer VllmForm::Chunk(const router::GenerationDelta& delta) {
  GenerateResponse response;
  vllm::grpc::engine::GenerateStreamChunk* const chunk = response.mutable_chunk();
  for (const OutputToken& token : delta.tokens) {
    chunk->add_token_ids(static_cast<uint32_t>(token.token));
    ids_.push_back(token.token);
  }
  chunk->set_prompt_tokens(prompt_tokens_);
  chunk->set_completion_tokens(static_cast<uint32_t>(delta.tokens.size()));
  if (delta.has_logprobs) FillLogprobs(delta, chunk->mutable_output_logprobs());
  return router::Serialize(response);
}

GenerateResponse VllmForm::Complete(const char* finish_reason) const {
  GenerateResponse response;
  vllm::grpc::engine::GenerateComplete* const complete = response.mutable_complete();
  complete->mutable_output_ids()->Reserve(static_cast<int>(ids_.size()));
  for (const int32_t id : ids_) complete->add_output_ids(static_cast<uint32_t>(id));
  complete->set_finish_reason(finish_reason);
  complete->set_prompt_tokens(prompt_tokens_);
  complete->set_completion_tokens(static_cast<uint32_t>(ids_.size()));
  return response;
}

router::AnswerEnd VllmForm::End(router::GenerationDelta output, const router::GenerationFinished& finished) {
  for (const OutputToken& token : output.tokens) ids_.push_back(token.token);
  GenerateResponse response = Complete(finished.reason == FinishReason::kStop ? "stop" : "length");
  vllm::grpc::engine::GenerateComplete* const complete = response.mutable_complete();
  complete->set_cached_tokens(static_cast<uint32_t>(finished.usage.cached_prompt_tokens));
  if (output.has_logprobs) FillLogprobs(output, complete->mutable_output_logprobs());
  if (finished.stop_index.has_value()) {
    complete->set_matched_stop_str(answer_.stop.at(static_cast<size_t>(*finished.stop_index)));
  }
  return {.message = router::Serialize(response), .status = grpc::Status::OK};
}

router::AnswerEnd VllmForm::End(const absl::Status& status) {
  const bool is_aborted = answer_.abortable != nullptr && answer_.abortable->is_aborted;
  if (is_aborted && absl::IsCancelled(status)) {
    return {.message = router::Serialize(Complete("abort")), .status = grpc::Status::OK};
  }
  return {.message = std::nullopt, .status = router::ToClientStatus(WithVllmNames(status))};
}

}  // namespace baton::gateway
