#include "gateway/vllm_answer.h"

#include "gateway/vllm_request.h"
#include "router/generation_wire.h"

namespace baton::gateway {
namespace {

using vllm::grpc::engine::GenerateResponse;

void FillTop(const std::vector<TopLogprob>& likely, vllm::grpc::engine::TopLogProbs* proto) {
  for (const TopLogprob& each : likely) {
    proto->add_values(each.logprob);
    proto->add_token_ids(static_cast<uint32_t>(each.token));
  }
}

void FillLogprobs(const router::GenerationDelta& delta, vllm::grpc::engine::OutputLogProbs* proto) {
  for (const OutputToken& token : delta.tokens) {
    proto->add_token_logprobs(token.logprob);
    proto->add_token_ids(static_cast<uint32_t>(token.token));
    if (!token.top.empty()) FillTop(token.top, proto->add_top_logprobs());
  }
}

bool HasPromptLogprobs(const router::GenerationDelta& delta) {
  return delta.prompt != nullptr && delta.prompt->logprobs != nullptr;
}

}  // namespace

std::optional<grpc::ByteBuffer> VllmForm::Begin(const router::GenerationAccepted& accepted) {
  prompt_tokens_ = static_cast<uint32_t>(accepted.prompt_tokens);
  return std::nullopt;
}

void VllmForm::FillPrompt(const router::GenerationDelta& delta, vllm::grpc::engine::InputLogProbs* proto) const {
  const router::GenerationPrompt& prompt = *delta.prompt;
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    proto->add_token_ids(static_cast<uint32_t>(prompt.tokens[i]));
    vllm::grpc::engine::InputTokenLogProb* const token = proto->add_token_logprobs();
    vllm::grpc::engine::TopLogProbs* const top = answer_.has_prompt_top ? proto->add_top_logprobs() : nullptr;
    // The lists have a place for the first token, which has no log-probability.
    if (i == 0) continue;
    const PromptLogprob& logprob = (*prompt.logprobs)[i - 1];
    token->set_value(logprob.logprob);
    if (top != nullptr) FillTop(logprob.top, top);
  }
}

grpc::ByteBuffer VllmForm::Chunk(const router::GenerationDelta& delta) {
  const auto index = static_cast<size_t>(delta.choice);
  if (delta.end.has_value()) return Complete(index, delta, *delta.end);
  GenerateResponse response;
  vllm::grpc::engine::GenerateStreamChunk* const chunk = response.mutable_chunk();
  std::vector<int32_t>& ids = choices_.at(index).ids;
  for (const OutputToken& token : delta.tokens) {
    chunk->add_token_ids(static_cast<uint32_t>(token.token));
    ids.push_back(token.token);
  }
  chunk->set_prompt_tokens(prompt_tokens_);
  chunk->set_completion_tokens(static_cast<uint32_t>(delta.tokens.size()));
  chunk->set_index(static_cast<uint32_t>(index));
  if (delta.has_logprobs) FillLogprobs(delta, chunk->mutable_output_logprobs());
  if (HasPromptLogprobs(delta)) FillPrompt(delta, chunk->mutable_input_logprobs());
  return router::Serialize(response);
}

GenerateResponse VllmForm::Complete(size_t index, const char* finish_reason) const {
  GenerateResponse response;
  vllm::grpc::engine::GenerateComplete* const complete = response.mutable_complete();
  const std::vector<int32_t>& ids = choices_.at(index).ids;
  complete->mutable_output_ids()->Reserve(static_cast<int>(ids.size()));
  for (const int32_t id : ids) complete->add_output_ids(static_cast<uint32_t>(id));
  complete->set_finish_reason(finish_reason);
  complete->set_prompt_tokens(prompt_tokens_);
  complete->set_completion_tokens(static_cast<uint32_t>(ids.size()));
  complete->set_index(static_cast<uint32_t>(index));
  return response;
}

grpc::ByteBuffer VllmForm::Complete(size_t index, const router::GenerationDelta& output, const router::ChoiceEnd& end) {
  Choice& choice = choices_.at(index);
  choice.has_ended = true;
  for (const OutputToken& token : output.tokens) choice.ids.push_back(token.token);
  GenerateResponse response = Complete(index, end.reason == FinishReason::kStop ? "stop" : "length");
  vllm::grpc::engine::GenerateComplete* const complete = response.mutable_complete();
  complete->set_cached_tokens(static_cast<uint32_t>(end.cached_prompt_tokens));
  if (output.has_logprobs) FillLogprobs(output, complete->mutable_output_logprobs());
  if (HasPromptLogprobs(output)) FillPrompt(output, complete->mutable_input_logprobs());
  if (end.stop_index.has_value()) {
    complete->set_matched_stop_str(answer_.stop.at(static_cast<size_t>(*end.stop_index)));
  }
  return router::Serialize(response);
}

router::AnswerEnd VllmForm::End(absl::Span<const router::GenerationDelta> outputs,
                                const router::GenerationFinished& finished) {
  router::AnswerEnd end = {.messages = {}, .status = grpc::Status::OK};
  const router::ChoiceEnd only = {.reason = finished.reason,
                                  .stop_index = finished.stop_index,
                                  .cached_prompt_tokens = finished.usage.cached_prompt_tokens};
  for (size_t i = 0; i < choices_.size(); ++i) {
    // The ends of several choices of a stream have come among its deltas.
    if (choices_[i].has_ended) continue;
    const router::GenerationDelta none;
    end.messages.push_back(
        Complete(i, outputs.empty() ? none : outputs[i], finished.choices.empty() ? only : finished.choices.at(i)));
  }
  return end;
}

router::AnswerEnd VllmForm::End(const absl::Status& status) {
  router::AnswerEnd end = {.messages = {}, .status = grpc::Status::OK};
  const bool is_aborted = answer_.abortable != nullptr && answer_.abortable->is_aborted;
  if (is_aborted && absl::IsCancelled(status)) {
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!choices_[i].has_ended) end.messages.push_back(router::Serialize(Complete(i, "abort")));
    }
    return end;
  }
  end.status = router::ToClientStatus(WithVllmNames(status));
  return end;
}

}  // namespace baton::gateway
