#include "router/admin_service.h"

#include <unistd.h>

#include "common/rpc/wire.h"
#include "common/version.h"
#include "router/drain_wire.h"
#include "router/ledger_wire.h"
#include "router/partners.h"

namespace baton::router {
namespace {

void FillWorker(const Dispatcher& dispatcher, const Worker& worker, v1::WorkerStatus* proto) {
  const WorkerRegistry& registry = dispatcher.registry();
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
  proto->set_incarnation(worker.info.incarnation.ToHex());
  proto->set_fingerprint(worker.info.fingerprint);
  proto->set_model(worker.info.model);
  proto->set_group(registry.GroupName(worker.info.fingerprint));
  const Partners partners = PartnersOf(registry, worker);
  proto->set_partners(partners.count);
  proto->set_no_partner(partners.why_none);
  proto->set_admin(worker.info.admin);
  const WorkerCondition condition = dispatcher.health().ConditionOf(worker.info.id);
  proto->set_trouble(condition.word());
  for (const std::string& address : condition.bad_partners) proto->add_bad_partners(address);
}

void FillRefused(const RefusedWorker& refused, TimeNs now, v1::RefusedWorker* proto) {
  proto->set_pid(refused.pid);
  proto->set_role(refused.role);
  proto->set_address(refused.target);
  proto->set_model(refused.model);
  proto->set_why(refused.why);
  proto->set_age_ms((now - refused.asked_at) / kNsPerMs);
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::Answer(grpc::CallbackServerContext* context,
                                               std::function<absl::Status(Dispatcher&)> task) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = loop_.Post(
      [reactor, task = std::move(task)](Dispatcher& dispatcher) { reactor->Finish(rpc::ToGrpc(task(dispatcher))); });
  if (!posted) reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the router is overloaded"});
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetLedger(grpc::CallbackServerContext* context, const v1::GetLedgerRequest*,
                                                  v1::GetLedgerResponse* response) {
  return Answer(context, [this, response](Dispatcher& dispatcher) {
    FillLedger(dispatcher, clock_.Now(), kMaxListedHolders, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::DrainWorker(grpc::CallbackServerContext* context,
                                                    const v1::DrainWorkerRequest* request,
                                                    v1::DrainWorkerResponse* response) {
  return Answer(context,
                [request, response](Dispatcher& dispatcher) { return OrderDrain(dispatcher, *request, response); });
}

grpc::ServerUnaryReactor* AdminService::GetDrain(grpc::CallbackServerContext* context,
                                                 const v1::GetDrainRequest* request, v1::GetDrainResponse* response) {
  return Answer(context,
                [request, response](Dispatcher& dispatcher) { return TellDrain(dispatcher, *request, response); });
}

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                                  v1::GetStatusResponse* response) {
  return Answer(context, [this, response](Dispatcher& dispatcher) {
    const WorkerRegistry& registry = dispatcher.registry();
    const TimeNs now = clock_.Now();
    response->set_version(kVersion);
    response->set_model(identity_.model);
    response->mutable_router()->set_pid(getpid());
    response->mutable_router()->set_address(address());
    response->mutable_router()->set_admin(identity_.admin);
    response->set_serving(registry.CanServe());
    response->set_waits_for(AwaitedWorkers(registry));
    for (const auto& [id, worker] : registry.workers()) FillWorker(dispatcher, worker, response->add_workers());
    for (const RefusedWorker& refused : registry.refused().Present(now)) {
      FillRefused(refused, now, response->add_refused());
    }
    response->set_queued_jobs(dispatcher.queued_jobs());
    response->set_running_jobs(dispatcher.running_jobs());
    response->set_paused_jobs(dispatcher.paused_jobs());
    return absl::OkStatus();
  });
}

}  // namespace baton::router
