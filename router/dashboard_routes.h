// The dashboard's page on the router's admin port.
#ifndef BATON_ROUTER_DASHBOARD_ROUTES_H_
#define BATON_ROUTER_DASHBOARD_ROUTES_H_

#include "telemetry/admin_server.h"

namespace baton::router {

// Before the server starts. Adds a path for each file of the page, with the policy that the page needs; /events is the
// caller's.
void AddDashboardRoutes(telemetry::AdminServer& server);

}  // namespace baton::router

#endif  // BATON_ROUTER_DASHBOARD_ROUTES_H_
