#include "gateway/web_chat.h"

#include <string>

#include "common/web_asset.h"
#include "gateway/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "telemetry/testing/raw_client.h"
#include "webchat/assets.h"

namespace baton::gateway {
namespace {

TEST(WebChatTest, EveryFileComesWithItsTypeAndThePolicy) {
  HttpServer server({});
  AddWebChatRoutes(server);
  ASSERT_TRUE(server.Start().ok());
  for (const WebAsset& asset : webchat::Assets()) {
    telemetry::RawClient client(server.port());
    ASSERT_TRUE(client.Send(telemetry::GetRequest(asset.path)));
    const std::string response = client.ReadResponse();
    EXPECT_EQ(telemetry::StatusOf(response), 200) << asset.path;
    EXPECT_EQ(telemetry::HeaderOf(response, "Content-Type"), asset.content_type);
    EXPECT_EQ(telemetry::HeaderOf(response, "Content-Security-Policy"), kContentSecurityPolicy);
    EXPECT_EQ(telemetry::BodyOf(response), asset.bytes);
  }
  server.Stop();
}

}  // namespace
}  // namespace baton::gateway
