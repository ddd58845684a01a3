#include "router/registry_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/rpc/protocol.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "common/version.h"

namespace baton::router {
namespace pb = internal::v1;
namespace {

constexpr int kHeartbeatIntervalMs = 100;

using JoinStream = rpc::ServerBidi<pb::JoinRequest, pb::JoinResponse>;

absl::StatusOr<WorkerInfo> ReadHello(const pb::WorkerHello& hello, const std::string& model) {
  // First: the other fields mean what they mean in this version only.
  BATON_RETURN_IF_ERROR(rpc::CheckProtocolVersion("worker", hello.protocol_version()));
  WorkerInfo info;
  BATON_ASSIGN_OR_RETURN(info.id, Id128::FromHex(hello.incarnation()));
  switch (hello.role()) {
    case pb::WORKER_ROLE_PREFILL:
      info.role = WorkerRole::kPrefill;
      break;
    case pb::WORKER_ROLE_DECODE:
      info.role = WorkerRole::kDecode;
      break;
    case pb::WORKER_ROLE_MIXED:
      info.role = WorkerRole::kMixed;
      break;
    default:
      return absl::InvalidArgumentError("the worker states no role");
  }
  if (hello.model() != model) {
    return absl::FailedPreconditionError(
        absl::StrCat("this router serves ", model, ", not ", hello.model(), ": start it with --model ", hello.model()));
  }
  info.target = hello.target();
  info.model = hello.model();
  info.fingerprint = hello.fingerprint();
  info.total_blocks = hello.total_blocks();
  info.max_sequences = hello.max_sequences();
  info.chunk_tokens = hello.chunk_tokens();
  info.context_length = hello.context_length();
  info.pid = hello.pid();
  info.groups = {.full = hello.full_groups(), .sliding = hello.sliding_groups(), .window = hello.window()};
  return info;
}

WorkerLoad ReadLoad(const pb::WorkerHeartbeat& heartbeat) {
  return {.state = heartbeat.draining() ? WorkerState::kDraining : WorkerState::kServing,
          .free_blocks = heartbeat.free_blocks(),
          .used_blocks = heartbeat.used_blocks(),
          .cached_blocks = heartbeat.cached_blocks(),
          .running = heartbeat.running(),
          .pending_prompt_tokens = heartbeat.pending_prompt_tokens()};
}

const char* RoleName(WorkerRole role) {
  return role == WorkerRole::kPrefill ? "prefill" : role == WorkerRole::kDecode ? "decode" : "mixed";
}

// One worker's membership. gRPC calls its callbacks one at a time.
struct Membership {
  std::shared_ptr<JoinStream> stream;
  WorkerId id;
  // The worker's hello has been read.
  bool introduced = false;
  // Read and written on the loop only. A worker that was refused as a duplicate must not, when its stream ends, remove
  // the member that has the same incarnation.
  bool joined = false;
};

void Join(RouterLoop& loop, const std::shared_ptr<Membership>& member, const pb::WorkerHello& hello,
          const std::string& model) {
  absl::StatusOr<WorkerInfo> info = ReadHello(hello, model);
  if (!info.ok()) return member->stream->Finish(rpc::ToGrpc(info.status()));
  member->id = info->id;
  member->introduced = true;
  const uint64_t features = hello.features() & rpc::kProtocolFeatures;
  loop.PostWhenRoom([member, stream = member->stream, info = *std::move(info), features](Dispatcher& dispatcher) {
    const absl::Status status = dispatcher.OnWorkerJoin(info);
    if (!status.ok()) return stream->Finish(rpc::ToGrpc(status));
    member->joined = true;
    spdlog::info("{} worker {} joined: {} blocks, {}", RoleName(info.role), info.target, info.total_blocks,
                 info.fingerprint);
    pb::JoinResponse response;
    pb::JoinAccepted* accepted = response.mutable_accepted();
    accepted->set_heartbeat_interval_ms(kHeartbeatIntervalMs);
    accepted->set_protocol_version(rpc::kProtocolVersion);
    accepted->set_features(features);
    stream->Push(std::move(response));
  });
}

void FillWorker(const Worker& worker, v1::WorkerStatus* proto) {
  proto->set_pid(worker.info.pid);
  proto->set_role(RoleName(worker.info.role));
  proto->set_address(worker.info.target);
  proto->set_state(worker.load.state == WorkerState::kServing ? "serving" : "draining");
  proto->set_total_blocks(worker.info.total_blocks);
  proto->set_free_blocks(worker.load.free_blocks);
  proto->set_used_blocks(worker.load.used_blocks);
  proto->set_cached_blocks(worker.load.cached_blocks);
  proto->set_running(worker.load.running);
  proto->set_pending_prompt_tokens(worker.load.pending_prompt_tokens);
  proto->set_incarnation(worker.info.id.ToHex());
  proto->set_fingerprint(worker.info.fingerprint);
  proto->set_model(worker.info.model);
}

}  // namespace

grpc::ServerBidiReactor<pb::JoinRequest, pb::JoinResponse>* RegistryService::Join(grpc::CallbackServerContext*) {
  auto member = std::make_shared<Membership>();
  member->stream = JoinStream::Create();
  JoinStream* stream = member->stream.get();
  stream->Start({.on_message =
                     [this, member](const pb::JoinRequest& request) {
                       if (request.has_hello() && !member->introduced) {
                         router::Join(loop_, member, request.hello(), model_);
                       } else if (request.has_heartbeat() && member->introduced) {
                         loop_.PostWhenRoom([id = member->id, load = ReadLoad(request.heartbeat())](
                                                Dispatcher& dispatcher) { dispatcher.OnWorkerLoad(id, load); });
                       }
                     },
                 .on_closed =
                     [this, member] {
                       if (member->introduced) {
                         loop_.PostWhenRoom([member](Dispatcher& dispatcher) {
                           if (member->joined)
                             dispatcher.OnWorkerLost(member->id, absl::UnavailableError("the worker left"));
                         });
                       }
                       member->stream->Finish(grpc::Status::OK);
                       member->stream.reset();
                     }});
  return stream;
}

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                                  v1::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = loop_.Post([reactor, response](Dispatcher& dispatcher) {
    response->set_version(kVersion);
    for (const auto& [id, worker] : dispatcher.registry().workers()) FillWorker(worker, response->add_workers());
    response->set_queued_jobs(dispatcher.queued_jobs());
    response->set_running_jobs(dispatcher.running_jobs());
    reactor->Finish(grpc::Status::OK);
  });
  if (!posted) reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the router is overloaded"});
  return reactor;
}

}  // namespace baton::router
