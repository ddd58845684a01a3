#include "router/admin_service.h"

#include "common/version.h"

namespace baton::router {
namespace {

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
  proto->set_incarnation(worker.info.incarnation.ToHex());
  proto->set_fingerprint(worker.info.fingerprint);
  proto->set_model(worker.info.model);
}

}  // namespace

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
