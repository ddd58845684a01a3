#include "router/generation_wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/output_grammar.h"
#include "common/rpc/retry_delay.h"
#include "common/rpc/wire.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "router/error_details.h"

namespace baton::router {
namespace {

// The message of one token with few log-probabilities is far smaller.
constexpr size_t kMaxReusedMessageBytes = 4096;

OutputGrammar ReadGrammar(const v1::Grammar& proto) {
  switch (proto.source_case()) {
    case v1::Grammar::kJsonObject:
      return {.kind = proto.json_object() ? GrammarKind::kJsonObject : GrammarKind::kNone};
    case v1::Grammar::kJsonSchema:
      return {.kind = GrammarKind::kJsonSchema, .text = proto.json_schema()};
    case v1::Grammar::kRegex:
      return {.kind = GrammarKind::kRegex, .text = proto.regex()};
    case v1::Grammar::kChoice:
      return ChoiceGrammar({proto.choice().texts().begin(), proto.choice().texts().end()});
    case v1::Grammar::kEbnf:
      return {.kind = GrammarKind::kEbnf, .text = proto.ebnf()};
    case v1::Grammar::SOURCE_NOT_SET:
      return {};
  }
  return {};
}

SamplingRequest ReadSampling(const v1::SamplingParams& proto) {
  SamplingRequest sampling;
  if (proto.has_temperature()) sampling.temperature = proto.temperature();
  if (proto.has_top_k()) sampling.top_k = proto.top_k();
  if (proto.has_top_p()) sampling.top_p = proto.top_p();
  if (proto.has_min_p()) sampling.min_p = proto.min_p();
  if (proto.has_repetition_penalty()) sampling.repetition_penalty = proto.repetition_penalty();
  if (proto.has_frequency_penalty()) sampling.frequency_penalty = proto.frequency_penalty();
  if (proto.has_presence_penalty()) sampling.presence_penalty = proto.presence_penalty();
  if (proto.has_seed()) sampling.seed = proto.seed();
  if (proto.has_max_tokens()) sampling.max_tokens = proto.max_tokens();
  if (proto.has_min_tokens()) sampling.min_tokens = proto.min_tokens();
  sampling.ignore_eos = proto.ignore_eos();
  sampling.stop_token_ids = {proto.stop_token_ids().begin(), proto.stop_token_ids().end()};
  if (proto.has_logprobs()) sampling.logprobs = proto.logprobs();
  if (proto.has_prompt_logprobs()) sampling.prompt_logprobs = proto.prompt_logprobs();
  sampling.logit_bias.reserve(static_cast<size_t>(proto.logit_bias_size()));
  for (const v1::TokenBias& each : proto.logit_bias()) {
    sampling.logit_bias.push_back({.token = each.id(), .bias = each.bias()});
  }
  sampling.grammar = ReadGrammar(proto.grammar());
  return sampling;
}

template <typename Request>
TextPrompt ReadText(Request& proto) {
  return {.text = std::move(*proto.mutable_text()),
          .add_special_tokens = !proto.has_add_special_tokens() || proto.add_special_tokens()};
}

Prompt TakePrompt(v1::GenerateRequest& proto) {
  switch (proto.prompt_case()) {
    case v1::GenerateRequest::kText:
      return ReadText(proto);
    case v1::GenerateRequest::kChat:
      return router::FromProto(std::move(*proto.mutable_chat()));
    case v1::GenerateRequest::kTokenIds:
      return TokenPrompt{{proto.token_ids().ids().begin(), proto.token_ids().ids().end()}};
    case v1::GenerateRequest::PROMPT_NOT_SET:
      return {};
  }
  return {};
}

v1::FinishReason ToProto(FinishReason reason) {
  return reason == FinishReason::kStop ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH;
}

void WriteTiming(const GenerationTiming& timing, v1::PhaseTimes* proto) {
  proto->set_queue_ms(NsToMs(timing.phases.queue_ns));
  proto->set_admission_ms(NsToMs(timing.phases.admission_ns));
  proto->set_prefill_ms(NsToMs(timing.phases.prefill_ns));
  proto->set_transfer_ms(NsToMs(timing.phases.transfer_ns));
  proto->set_decode_ms(NsToMs(timing.phases.decode_ns));
  proto->set_network_ms(NsToMs(timing.network_ns));
  proto->set_total_ms(NsToMs(timing.total_ns));
}

template <typename Token>
void AddTop(const std::vector<TopLogprob>& likely, Token* token) {
  for (const TopLogprob& each : likely) {
    v1::TopLogprob* top = token->add_top_logprobs();
    top->set_id(each.token);
    top->set_logprob(each.logprob);
  }
}

void WritePrompt(const GenerationPrompt& prompt, v1::Prompt* proto) {
  if (prompt.text.has_value()) proto->set_text(*prompt.text);
  if (prompt.logprobs == nullptr) return;
  proto->mutable_tokens()->Reserve(static_cast<int>(prompt.tokens.size()));
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    v1::PromptToken* token = proto->add_tokens();
    token->set_id(prompt.tokens[i]);
    if (i == 0) continue;
    const PromptLogprob& logprob = (*prompt.logprobs)[i - 1];
    token->set_logprob(logprob.logprob);
    token->set_rank(logprob.rank);
    AddTop(logprob.top, token);
  }
}

grpc::Status WithDetail(const absl::Status& status, const google::protobuf::Message& detail) {
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(std::string(status.message()));
  rich.add_details()->PackFrom(detail);
  const grpc::Status plain = rpc::ToGrpc(status);
  return {plain.error_code(), plain.error_message(), rich.SerializeAsString()};
}

// The digest of a message that has no idempotency key. It only tells a client's own requests apart.
Digest128 BodyOf(v1::GenerateRequest& proto) {
  proto.clear_idempotency_key();
  proto.clear_resumable();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    BATON_CHECK(proto.SerializeToCodedStream(&coded)) << "a message without required fields";
  }
  return DigestBytes(bytes.data(), bytes.size());
}

}  // namespace

ChatPrompt FromProto(v1::ChatPrompt&& proto) {
  ChatPrompt chat;
  chat.messages.reserve(proto.messages_size());
  for (v1::ChatMessage& message : *proto.mutable_messages()) {
    chat.messages.push_back(
        {.role = std::move(*message.mutable_role()), .content = std::move(*message.mutable_content())});
  }
  return chat;
}

TextPrompt TakeText(v1::TokenizeRequest& proto) { return ReadText(proto); }

GenerationRequest FromProto(v1::GenerateRequest&& proto) {
  GenerationRequest request;
  request.resumable = proto.resumable();
  request.idempotency_key = std::move(*proto.mutable_idempotency_key());
  if (!request.idempotency_key.empty()) request.body = BodyOf(proto);
  request.model = std::move(*proto.mutable_model());
  request.prompt = TakePrompt(proto);
  request.sampling = ReadSampling(proto.sampling());
  for (std::string& stop : *proto.mutable_stop()) request.stop.push_back(std::move(stop));
  request.want_kv_digest = proto.return_kv_digest();
  request.echo = proto.echo();
  request.allow_other_numerics = proto.allow_other_numerics();
  request.tenant = std::move(*proto.mutable_tenant());
  request.priority = proto.priority();
  if (proto.has_choices()) request.choices = proto.choices();
  return request;
}

absl::StatusOr<ResumeRequest> FromProto(const v1::ResumeRequest& proto) {
  ResumeRequest request;
  const absl::StatusOr<JobId> job = JobId::FromHex(proto.job_id());
  if (!job.ok()) return FieldViolation("job_id", "must be the 32 hex digits of a job's id");
  request.job = *job;
  request.next_index = proto.next_index();
  if (proto.has_text_bytes()) request.text_bytes = proto.text_bytes();
  return request;
}

v1::GenerateResponse ToProto(const GenerationAccepted& accepted) {
  v1::GenerateResponse response;
  response.mutable_accepted()->set_job_id(accepted.id.ToHex());
  response.mutable_accepted()->set_seed(accepted.seed);
  response.mutable_accepted()->set_prompt_tokens(accepted.prompt_tokens);
  return response;
}

void ToProto(const GenerationDelta& delta, v1::Output* output) {
  output->Clear();
  output->set_text(delta.text);
  output->set_choice(delta.choice);
  if (delta.end.has_value()) output->set_finish_reason(ToProto(delta.end->reason));
  for (const OutputToken& token : delta.tokens) {
    v1::OutputToken* proto = output->add_tokens();
    proto->set_index(token.index);
    proto->set_id(token.token);
    if (delta.has_logprobs) proto->set_logprob(token.logprob);
    AddTop(token.top, proto);
    proto->set_other_numerics(token.other_numerics);
  }
  if (delta.prompt != nullptr) WritePrompt(*delta.prompt, output->mutable_prompt());
}

v1::GenerateResponse ToProto(const GenerationFinished& finished) {
  v1::GenerateResponse response;
  v1::Finished* proto = response.mutable_finished();
  proto->set_reason(ToProto(finished.reason));
  proto->mutable_usage()->set_prompt_tokens(finished.usage.prompt_tokens);
  proto->mutable_usage()->set_output_tokens(finished.usage.output_tokens);
  proto->mutable_usage()->set_cached_prompt_tokens(finished.usage.cached_prompt_tokens);
  proto->set_kv_digest(finished.kv_digest);
  proto->set_job_id(finished.id.ToHex());
  proto->set_seed(finished.seed);
  if (finished.other_numerics_from.has_value()) proto->set_other_numerics_from(*finished.other_numerics_from);
  WriteTiming(finished.timing, proto->mutable_timing());
  proto->mutable_transfer()->set_bytes(finished.decode.transfer_bytes);
  proto->mutable_transfer()->set_read_ms(NsToMs(finished.decode.read_ns));
  proto->mutable_transfer()->set_digest_ms(NsToMs(finished.decode.digest_ns));
  proto->mutable_transfer()->set_tail_ms(NsToMs(finished.decode.transfer_tail_ns));
  return response;
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  const grpc::Status status =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(message, &bytes, &own_buffer);
  BATON_CHECK(status.ok()) << status.error_message();
  return bytes;
}

grpc::ByteBuffer Serialize(const GenerationDelta& delta) {
  // Its parts keep their memory from one token to the next.
  thread_local v1::GenerateResponse response;
  ToProto(delta, response.mutable_output());
  grpc::ByteBuffer bytes = Serialize(response);
  if (bytes.Length() > kMaxReusedMessageBytes) response.clear_output();
  return bytes;
}

grpc::Status ToClientStatus(const absl::Status& status) {
  if (const auto error = GetFieldError(status)) {
    google::rpc::BadRequest detail;
    auto* violation = detail.add_field_violations();
    violation->set_field(error->field);
    violation->set_description(error->description);
    return WithDetail(status, detail);
  }
  if (const auto retry_after_ms = GetRetryAfterMs(status)) {
    google::rpc::RetryInfo detail;
    detail.mutable_retry_delay()->set_seconds(*retry_after_ms / 1000);
    detail.mutable_retry_delay()->set_nanos(static_cast<int32_t>(*retry_after_ms % 1000 * 1'000'000));
    return WithDetail(status, detail);
  }
  return rpc::ToGrpc(status);
}

void AddRetryPushback(const grpc::Status& status, grpc::ServerContextBase& context) {
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.error_details())) return;
  const std::optional<int64_t> delay_ms = rpc::RetryDelayMs(rich);
  if (delay_ms.has_value()) context.AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(*delay_ms));
}

}  // namespace baton::router
