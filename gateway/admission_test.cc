#include "gateway/admission.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/testing/test_tls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::gateway {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::Pair;

constexpr char kClosedPath[] = "/v1/chat/completions";

rpc::ServerGuard WithKey(const std::string& key) {
  return {.rules = {.port = rpc::Port::kHttp, .requires_key = true},
          .knows_key = [key](std::string_view shown) { return shown == key; }};
}

HttpRequest Asking(const std::string& path, HttpHeaders headers = {}) {
  return {.method = "POST", .path = path, .headers = std::move(headers)};
}

HttpRequest Showing(std::vector<std::string> uris) {
  HttpRequest request = Asking(kClosedPath);
  request.peer = std::make_shared<const HttpPeer>(HttpPeer{.uris = std::move(uris)});
  return request;
}

TEST(AdmissionTest, WithoutKeysAHeaderOfOneIsIgnored) {
  const HttpAdmission admit = MakeAdmission({.rules = {.port = rpc::Port::kHttp}}, nullptr);
  EXPECT_FALSE(admit(Asking(kClosedPath)).has_value());
  EXPECT_FALSE(admit(Asking(kClosedPath, {{"authorization", "Bearer none"}})).has_value());
}

TEST(AdmissionTest, AKeyOpensEveryPathAndSomeAreOpen) {
  const HttpAdmission admit = MakeAdmission(WithKey("right"), nullptr);
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/models", "/tokenize", "/detokenize", "/else",
                           "/healthz", "/version/", "/chat.css/", "/openapi.json/"}) {
    EXPECT_TRUE(admit(Asking(path)).has_value()) << path;
    EXPECT_FALSE(admit(Asking(path, {{"authorization", "Bearer right"}})).has_value()) << path;
  }
  for (const char* path : {"/health", "/ping", "/version", "/openapi.json", "/", "/chat.css", "/chat.js"}) {
    EXPECT_FALSE(admit(Asking(path)).has_value()) << path;
  }
}

TEST(AdmissionTest, WhatIsNotOneRightKeyIsRefusedInOpenAisForm) {
  const HttpAdmission admit = MakeAdmission(WithKey("right"), nullptr);
  for (const HttpHeaders& headers :
       std::vector<HttpHeaders>{{},
                                {{"authorization", "Bearer wrong"}},
                                {{"authorization", "Bearer "}},
                                {{"authorization", "right"}},
                                {{"authorization", "Basic right"}},
                                {{"x-api-key", "right"}},
                                // Which of them would count?
                                {{"authorization", "Bearer right"}, {"authorization", "Bearer right"}}}) {
    const auto refusal = admit(Asking(kClosedPath, headers));
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->status, 401);
    EXPECT_THAT(refusal->headers, Contains(Pair("WWW-Authenticate", "Bearer")));
    const auto error = nlohmann::json::parse(refusal->body).at("error");
    EXPECT_EQ(error.at("code"), "invalid_api_key");
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    EXPECT_TRUE(error.at("param").is_null());
    EXPECT_EQ(error.at("message").get<std::string>().find("wrong"), std::string::npos);
  }
}

TEST(AdmissionTest, AnthropicsClientsShowTheirKeyInAHeaderOfTheirOwnAndHearTheirOwnErrors) {
  const HttpAdmission admit = MakeAdmission(WithKey("right"), nullptr);
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    EXPECT_FALSE(admit(Asking(path, {{"x-api-key", "right"}})).has_value()) << path;
    EXPECT_FALSE(admit(Asking(path, {{"authorization", "Bearer right"}})).has_value()) << path;
    for (const HttpHeaders& headers :
         std::vector<HttpHeaders>{{},
                                  {{"x-api-key", "wrong"}},
                                  {{"x-api-key", "right"}, {"x-api-key", "right"}},
                                  {{"x-api-key", "right"}, {"authorization", "Bearer right"}}}) {
      const auto refusal = admit(Asking(path, headers));
      ASSERT_TRUE(refusal.has_value());
      EXPECT_EQ(refusal->status, 401);
      EXPECT_EQ(nlohmann::json::parse(refusal->body).at("error").at("type"), "authentication_error");
    }
  }
}

TEST(AdmissionTest, ARequiredCertificateNeedsTheRoleOfAClient) {
  const TestTls tls(/*requires_certificate=*/true);
  const HttpAdmission admit =
      MakeAdmission({.rules = {.port = rpc::Port::kHttp, .requires_certificate = true}}, &tls.credentials());
  EXPECT_FALSE(admit(Showing({"spiffe://test.baton/baton/client"})).has_value());
  EXPECT_FALSE(admit(Showing({"https://else.where", "spiffe://test.baton/baton/operator"})).has_value());
  for (const char* uri : {"spiffe://test.baton/baton/decode-worker", "spiffe://else.where/baton/client", "client"}) {
    const auto refusal = admit(Showing({uri}));
    ASSERT_TRUE(refusal.has_value()) << uri;
    EXPECT_EQ(refusal->status, 403);
    EXPECT_THAT(refusal->headers, Not(Contains(Pair("WWW-Authenticate", "Bearer"))));
  }
  EXPECT_EQ(admit(Asking(kClosedPath))->status, 401);
}

}  // namespace
}  // namespace baton::gateway
