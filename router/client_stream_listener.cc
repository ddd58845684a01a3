#include "router/client_stream_listener.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <utility>

#include "common/check.h"
#include "router/error_details.h"
#include "router/generation_wire.h"

namespace baton::router {

void ClientStreamListener::OnToken(const OutputToken& token) {
  if (output_.stopped()) return;
  absl::StatusOr<std::string> text = output_.Push(token.token);
  if (!text.ok()) return dispatcher_.Cancel(call_.job->key(), absl::InternalError(text.status().message()));
  v1::GenerateResponse response;
  response.mutable_output()->set_text(*std::move(text));
  v1::OutputToken* proto = response.mutable_output()->add_tokens();
  proto->set_index(token.index);
  proto->set_id(token.token);
  if (call_.job->sampling.logprobs >= 0) proto->set_logprob(token.logprob);
  for (const TopLogprob& likely : token.top) {
    v1::TopLogprob* top = proto->add_top_logprobs();
    top->set_id(likely.token);
    top->set_logprob(likely.logprob);
  }
  Push(response);
  if (output_.stopped()) dispatcher_.Cancel(call_.job->key(), absl::OkStatus());
}

void ClientStreamListener::OnEnd(const JobResult& result) {
  if (!result.status.ok()) return call_.stream->Finish(ToClientStatus(WithRetryAfter(result.status)));
  if (std::string text = output_.Flush(); !text.empty()) {
    v1::GenerateResponse response;
    response.mutable_output()->set_text(std::move(text));
    Push(response);
  }
  v1::GenerateResponse response;
  *response.mutable_finished() = MakeFinished(result);
  Push(response);
  call_.stream->Finish(grpc::Status::OK);
}

void ClientStreamListener::Push(const v1::GenerateResponse& response) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  const grpc::Status serialized =
      grpc::SerializationTraits<v1::GenerateResponse>::Serialize(response, &bytes, &own_buffer);
  BATON_CHECK(serialized.ok()) << serialized.error_message();
  if (call_.stream->Push(std::move(bytes))) return;
  const absl::Status slow = absl::ResourceExhaustedError("the client does not read its stream: the job was cancelled");
  call_.stream->Finish(ToClientStatus(WithRetryAfter(slow)));
  dispatcher_.Cancel(call_.job->key(), slow);
}

v1::Finished ClientStreamListener::MakeFinished(const JobResult& result) const {
  v1::Finished finished;
  // A stop string in the flushed tail ends the text like any other.
  const bool stop = result.finish == FinishReason::kStop || output_.stopped();
  finished.set_reason(stop ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  finished.mutable_usage()->set_prompt_tokens(result.prompt_tokens);
  finished.mutable_usage()->set_output_tokens(result.output_tokens);
  finished.mutable_usage()->set_cached_prompt_tokens(result.cached_tokens);
  finished.set_kv_digest(result.kv_digest);
  finished.set_job_id(call_.job->id.ToHex());
  finished.set_seed(call_.job->sampling.seed);

  const PhaseTimes& phases = result.phases;
  const int64_t total_ns = clock_.Now() - call_.arrived;
  v1::PhaseTimes* timing = finished.mutable_timing();
  timing->set_queue_ms(NsToMs(phases.queue_ns));
  timing->set_admission_ms(NsToMs(phases.admission_ns));
  timing->set_prefill_ms(NsToMs(phases.prefill_ns));
  timing->set_transfer_ms(NsToMs(phases.transfer_ns));
  timing->set_decode_ms(NsToMs(phases.decode_ns));
  timing->set_network_ms(NsToMs(total_ns - phases.queue_ns - phases.admission_ns - phases.prefill_ns -
                                phases.transfer_ns - phases.decode_ns));
  timing->set_total_ms(NsToMs(total_ns));
  finished.mutable_transfer()->set_bytes(result.decode.transfer_bytes);
  finished.mutable_transfer()->set_read_ms(NsToMs(result.decode.read_ns));
  finished.mutable_transfer()->set_digest_ms(NsToMs(result.decode.digest_ns));
  finished.mutable_transfer()->set_tail_ms(NsToMs(result.decode.transfer_tail_ns));
  return finished;
}

}  // namespace baton::router
