#include "gateway/api_document.h"

#include "gateway/http_server.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "telemetry/testing/raw_client.h"

namespace baton::gateway {
namespace {

TEST(ApiDocumentTest, TheDocumentIsServedAndDescribesItself) {
  HttpServer server({});
  AddApiDocumentRoute(server);
  ASSERT_TRUE(server.Start().ok());
  telemetry::RawClient client(server.port());
  ASSERT_TRUE(client.Send(telemetry::GetRequest("/openapi.json")));
  const std::string response = client.ReadResponse();
  EXPECT_EQ(telemetry::StatusOf(response), 200);
  EXPECT_EQ(telemetry::HeaderOf(response, "Content-Type"), "application/json");
  const nlohmann::json document = nlohmann::json::parse(telemetry::BodyOf(response));
  EXPECT_EQ(document.at("openapi"), "3.1.0");
  EXPECT_TRUE(document.at("paths").contains("/openapi.json"));
  EXPECT_TRUE(IsApiDocumentPath("/openapi.json"));
  EXPECT_FALSE(IsApiDocumentPath("/"));
  server.Stop();
}

}  // namespace
}  // namespace baton::gateway
