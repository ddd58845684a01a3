// AdminService's drains, on the dispatcher's words.
#ifndef BATON_ROUTER_DRAIN_WIRE_H_
#define BATON_ROUTER_DRAIN_WIRE_H_

#include "absl/status/status.h"
#include "baton/v1/admin.pb.h"
#include "router/dispatcher.h"

namespace baton::router {

// Both fail as admin.proto says, and have filled nothing then.
absl::Status OrderDrain(Dispatcher& dispatcher, const v1::DrainWorkerRequest& request,
                        v1::DrainWorkerResponse* response);
absl::Status TellDrain(const Dispatcher& dispatcher, const v1::GetDrainRequest& request,
                       v1::GetDrainResponse* response);

}  // namespace baton::router

#endif  // BATON_ROUTER_DRAIN_WIRE_H_
