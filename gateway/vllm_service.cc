#include "gateway/vllm_service.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/kv_layout.h"
#include "common/version.h"
#include "gateway/vllm_answer.h"
#include "gateway/vllm_request.h"
#include "router/generation_listener.h"
#include "router/single_call.h"

namespace baton::gateway {
namespace {

// The form of a request that is still to be read.
std::unique_ptr<router::AnswerForm> MakeVllmForm() { return std::make_unique<VllmForm>(VllmAnswer()); }

grpc::ServerUnaryReactor* FinishVllmCall(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

VllmService::VllmService(router::RpcRequests& requests, const router::ViewBoard& views, const Clock& clock,
                         std::function<bool()> is_serving)
    : requests_(requests), views_(views), clock_(clock), is_serving_(std::move(is_serving)), started_(clock.Now()) {}

void VllmService::Prepare(grpc::ServerBuilder& builder) { accepting_.emplace(builder.AddCompletionQueue()); }

void VllmService::Accept() {
  for (int i = 0; i < router::kAwaitedCalls; ++i) Await();
  accepting_->Start();
}

void VllmService::Stop() {
  accepting_->Stop();
  requests_.AwaitNone();
}

void VllmService::Await() {
  if (accepting_->stopping()) return;
  router::StreamingCall::Await([this](auto*... arguments) { RequestGenerate(arguments...); }, accepting_->queue(),
                               requests_.events(), requests_.unread(), &MakeVllmForm,
                               [this](router::SingleCall& call, const std::shared_ptr<router::RpcAnswer>& answer) {
                                 Await();
                                 requests_.Queue(
                                     call.context(), answer, call.TakeMessage(),
                                     [this, answer](router::RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes) {
                                       Begin(*answer, std::move(incoming), bytes);
                                     });
                               });
}

void VllmService::Begin(router::RpcAnswer& answer, router::RpcRequests::Incoming incoming, grpc::ByteBuffer& bytes) {
  vllm::grpc::engine::GenerateRequest message;
  if (!router::ParseMessage(bytes, &message)) {
    return router::WriteFailed(router::Unparsable("GenerateRequest"), *incoming.request);
  }
  VllmAnswer form = {.is_stream = message.stream()};
  absl::StatusOr<router::GenerationRequest> read = ReadVllmRequest(message, requests_.model().config.context_length);
  if (!read.ok()) return router::WriteFailed(read.status(), *incoming.request);
  form.stop = read->stop;
  form.choices = read->choices;
  form.has_prompt_top = read->sampling.prompt_logprobs.value_or(0) > 0;
  form.abortable = aborts_.Add(incoming.tenant, message.request_id(), incoming.id);
  answer.SetForm(std::make_unique<VllmForm>(std::move(form)));
  requests_.Generate(std::move(incoming), *std::move(read));
}

grpc::ServerUnaryReactor* VllmService::Abort(grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
                                             grpc::ByteBuffer* response) {
  const auto answer =
      [this, tenant = requests_.TenantOf(*context)](
          vllm::grpc::engine::AbortRequest& request) -> absl::StatusOr<vllm::grpc::engine::AbortResponse> {
    if (!tenant.ok()) return tenant.status();
    for (const std::string& name : request.request_ids()) {
      for (const JobId& id : aborts_.Abort(*tenant, name)) requests_.generator().Cancel(id);
    }
    return vllm::grpc::engine::AbortResponse();
  };
  return requests_.QueueUnary<vllm::grpc::engine::AbortRequest>(*context, message, response, answer);
}

grpc::ServerUnaryReactor* VllmService::HealthCheck(grpc::CallbackServerContext* context,
                                                   const vllm::grpc::engine::HealthCheckRequest*,
                                                   vllm::grpc::engine::HealthCheckResponse* response) {
  response->set_healthy(is_serving_());
  response->set_message(response->healthy() ? "the workers serve" : "no worker serves");
  return FinishVllmCall(context);
}

grpc::ServerUnaryReactor* VllmService::GetModelInfo(grpc::CallbackServerContext* context,
                                                    const vllm::grpc::engine::GetModelInfoRequest*,
                                                    vllm::grpc::engine::GetModelInfoResponse* response) {
  const router::ServedModel& model = requests_.model();
  response->set_model_path(model.name);
  response->set_served_model_name(model.name);
  response->set_is_generation(true);
  response->set_max_context_length(static_cast<uint32_t>(model.config.context_length));
  // One token of the context is left for the output.
  response->set_max_req_input_len(model.config.context_length - 1);
  response->set_vocab_size(static_cast<uint32_t>(model.config.vocab_size));
  response->set_model_type(std::string(model.config.architecture));
  if (model.tokenizer->eos_id() >= 0) response->add_eos_token_ids(model.tokenizer->eos_id());
  response->set_pad_token_id(model.tokenizer->padding_id());
  response->set_bos_token_id(model.tokenizer->bos_id());
  return FinishVllmCall(context);
}

grpc::ServerUnaryReactor* VllmService::GetServerInfo(grpc::CallbackServerContext* context,
                                                     const vllm::grpc::engine::GetServerInfoRequest*,
                                                     vllm::grpc::engine::GetServerInfoResponse* response) {
  const auto view = views_.Latest();
  response->set_active_requests(static_cast<uint32_t>(view->running_jobs + view->queued_jobs));
  response->set_uptime_seconds(NsToMs(clock_.Now() - started_) / 1e3);
  // The name by which its clients know the protocol.
  response->set_server_type("vllm-grpc");
  response->set_data_parallel_size(1);
  response->set_block_size(kBlockTokens);
  return FinishVllmCall(context);
}

grpc::ServerUnaryReactor* VllmService::GetLoads(grpc::CallbackServerContext* context,
                                                const vllm::grpc::engine::GetLoadsRequest* request,
                                                vllm::grpc::engine::GetLoadsResponse* response) {
  response->set_timestamp(absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()));
  response->set_version(kVersion);
  response->set_dp_rank_count(1);
  // There is one rank.
  if (request->dp_rank() != 0) return FinishVllmCall(context);
  const auto view = views_.Latest();
  int64_t used_blocks = 0;
  int64_t total_blocks = 0;
  for (const router::WorkerView& worker : view->workers) {
    if (!worker.decodes()) continue;
    used_blocks += worker.load.used_blocks;
    total_blocks += worker.total_blocks;
  }
  vllm::grpc::engine::SchedulerLoad* const load = response->add_loads();
  load->set_num_running_reqs(view->running_jobs);
  load->set_num_waiting_reqs(view->queued_jobs);
  load->set_num_total_reqs(view->running_jobs + view->queued_jobs);
  load->set_num_used_tokens(static_cast<int32_t>(used_blocks * kBlockTokens));
  load->set_max_total_num_tokens(static_cast<int32_t>(total_blocks * kBlockTokens));
  if (total_blocks > 0) load->set_token_usage(static_cast<double>(used_blocks) / static_cast<double>(total_blocks));
  return FinishVllmCall(context);
}

}  // namespace baton::gateway
