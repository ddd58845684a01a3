#include "router/drain_wire.h"

#include "common/status.h"
#include "router/partners.h"

namespace baton::router {
namespace {

const char* DrainStateName(DrainState state) {
  switch (state) {
    case DrainState::kDraining:
      return "draining";
    case DrainState::kLeft:
      return "left";
    case DrainState::kLost:
      break;
  }
  return "lost";
}

}  // namespace

absl::Status OrderDrain(Dispatcher& dispatcher, const v1::DrainWorkerRequest& request,
                        v1::DrainWorkerResponse* response) {
  BATON_ASSIGN_OR_RETURN(const WorkerId id, dispatcher.OrderDrain(request.worker()));
  const Worker& worker = *dispatcher.registry().Find(id);
  response->set_pid(worker.info.pid);
  response->set_role(RoleName(worker.info.role));
  response->set_address(worker.info.target);
  response->set_incarnation(worker.info.incarnation.ToHex());
  response->set_group(dispatcher.registry().GroupName(worker.info.fingerprint));
  response->set_drain_timeout_ms(worker.info.drain_timeout_ms);
  response->set_last_for(LastFor(dispatcher.registry(), worker));
  return absl::OkStatus();
}

absl::Status TellDrain(const Dispatcher& dispatcher, const v1::GetDrainRequest& request,
                       v1::GetDrainResponse* response) {
  BATON_ASSIGN_OR_RETURN(const Incarnation incarnation, Incarnation::FromHex(request.incarnation()));
  const DrainRecord* record = dispatcher.drain_orders().Find(incarnation);
  if (record == nullptr) {
    return absl::NotFoundError("this router has not ordered that worker to drain, or it is over long ago");
  }
  response->set_state(DrainStateName(record->state));
  response->set_why(record->why);
  if (const Worker* worker = dispatcher.registry().FindProcess(incarnation); worker != nullptr) {
    response->set_open_calls(AssignmentOf(dispatcher.assigned(), worker->info.id).jobs);
  }
  return absl::OkStatus();
}

}  // namespace baton::router
