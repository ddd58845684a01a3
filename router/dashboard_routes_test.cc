#include "router/dashboard_routes.h"

#include <string>

#include "common/web_asset.h"
#include "dashboard/assets.h"
#include "gtest/gtest.h"
#include "telemetry/testing/raw_client.h"

namespace baton::router {
namespace {

TEST(DashboardRoutesTest, TheAdminServerServesEveryFileWithItsTypeAndThePolicyOfThePage) {
  telemetry::AdminServer server({});
  AddDashboardRoutes(server);
  ASSERT_TRUE(server.Start().ok());
  telemetry::RawClient client(server.port());
  for (const WebAsset& asset : dashboard::Assets()) {
    ASSERT_TRUE(client.Send(telemetry::GetRequest(asset.path)));
    const std::string response = client.ReadResponse();
    EXPECT_EQ(telemetry::StatusOf(response), 200) << asset.path;
    EXPECT_EQ(telemetry::BodyOf(response), asset.bytes) << asset.path;
    EXPECT_EQ(telemetry::HeaderOf(response, "Content-Type"), asset.content_type);
    EXPECT_EQ(telemetry::HeaderOf(response, "Content-Security-Policy"), kContentSecurityPolicy);
    EXPECT_EQ(telemetry::HeaderOf(response, "Cache-Control"), "no-cache");
  }
}

}  // namespace
}  // namespace baton::router
