#include "router/dashboard_routes.h"

#include <string>

#include "common/web_asset.h"
#include "dashboard/assets.h"

namespace baton::router {

void AddDashboardRoutes(telemetry::AdminServer& server) {
  for (const WebAsset& asset : dashboard::Assets()) {
    const auto serve = [&asset](const telemetry::AdminRequest&) {
      // A router of another version may listen here tomorrow, and its modules fit together only with each other.
      return telemetry::AdminResponse{.content_type = std::string(asset.content_type),
                                      .body = std::string(asset.bytes),
                                      .headers = {{"Cache-Control", "no-cache"}}};
    };
    server.AddRoute(std::string(asset.path), serve, kContentSecurityPolicy);
  }
}

}  // namespace baton::router
