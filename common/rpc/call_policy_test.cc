#include "common/rpc/call_policy.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

constexpr char kGenerate[] = "/baton.v1.GenerationService/Generate";
constexpr char kStatus[] = "/baton.v1.AdminService/GetStatus";
constexpr char kGetDrain[] = "/baton.v1.AdminService/GetDrain";
constexpr char kDrainWorker[] = "/baton.v1.AdminService/DrainWorker";
constexpr char kJoin[] = "/baton.internal.v1.ClusterService/Join";
constexpr char kFetch[] = "/baton.internal.v1.KvService/Fetch";
constexpr char kRead[] = "/baton.internal.v1.KvReadService/Read";
constexpr char kPair[] = "/baton.internal.v1.KvPairService/Pair";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr char kUnknown[] = "/nobody.knows/This";

const std::map<std::string, Caller> kCallers = {
    {"nobody", {}},
    {"stranger", {.has_certificate = true}},
    {"router", {.has_certificate = true, .roles = {Role::kRouter}}},
    {"prefill", {.has_certificate = true, .roles = {Role::kPrefillWorker}}},
    {"decode", {.has_certificate = true, .roles = {Role::kDecodeWorker}}},
    {"mixed", {.has_certificate = true, .roles = {Role::kMixedWorker}}},
    {"client", {.has_certificate = true, .roles = {Role::kClient}}},
    {"operator", {.has_certificate = true, .roles = {Role::kOperator}}},
    {"key", {.key = KeyState::kKnown}},
    {"wrong-key", {.key = KeyState::kUnknown}},
    {"client-and-key", {.has_certificate = true, .roles = {Role::kClient}, .key = KeyState::kKnown}},
};

// The callers that get in, in the order of the map; everybody else is refused.
std::vector<std::string> Allowed(const CallRules& rules, const char* path) {
  std::vector<std::string> allowed;
  for (const auto& [name, caller] : kCallers) {
    const absl::Status status = Authorize(rules, path, caller);
    if (status.ok()) allowed.push_back(name);
    const bool lacks = !caller.has_certificate && (rules.port != Port::kClients || rules.requires_certificate);
    const bool lacks_key = rules.port == Port::kClients && caller.key != KeyState::kKnown &&
                           (!rules.requires_certificate || caller.roles.HasAny({Role::kClient, Role::kOperator}));
    if (!status.ok()) {
      EXPECT_EQ(status.code(),
                lacks || lacks_key ? absl::StatusCode::kUnauthenticated : absl::StatusCode::kPermissionDenied)
          << name << " " << path << " " << status;
    }
  }
  return allowed;
}

std::vector<std::string> Everybody() {
  std::vector<std::string> all;
  for (const auto& [name, unused] : kCallers) all.push_back(name);
  return all;
}

using Names = std::vector<std::string>;

TEST(CallPolicyTest, OnlyWorkersJoin) {
  const CallRules rules = {.port = Port::kCluster};
  EXPECT_EQ(Allowed(rules, kJoin), Names({"decode", "mixed", "prefill"}));
  for (const char* const path : {kGenerate, kStatus, kFetch, kCheck, kReflection, kUnknown}) {
    EXPECT_EQ(Allowed(rules, path), Names({"decode", "mixed", "operator", "prefill", "router"})) << path;
  }
}

TEST(CallPolicyTest, OnlyWorkersThatDecodeFetch) {
  const CallRules rules = {.port = Port::kWorker};
  EXPECT_EQ(Allowed(rules, kFetch), Names({"decode", "mixed"}));
  EXPECT_EQ(Allowed(rules, kRead), Names({"decode", "mixed"}));
  EXPECT_EQ(Allowed(rules, kPair), Names({"decode", "mixed"}));
  EXPECT_EQ(Allowed(rules, kCheck),
            Names({"client", "client-and-key", "decode", "mixed", "operator", "prefill", "router", "stranger"}));
  for (const char* const path : {kGenerate, kStatus, kJoin, kReflection, kUnknown}) {
    EXPECT_EQ(Allowed(rules, path), Names({"decode", "mixed", "operator", "prefill", "router"})) << path;
  }
}

TEST(CallPolicyTest, WithoutKeysAndCertificatesEveryClientMayCall) {
  for (const char* const path : {kGenerate, kStatus, kCheck, kReflection, kUnknown}) {
    EXPECT_EQ(Allowed({.port = Port::kClients}, path), Everybody()) << path;
  }
}

TEST(CallPolicyTest, AKeyOpensAllThatNeedsKeysAndHealthNeedsNone) {
  const CallRules rules = {.port = Port::kClients, .requires_key = true};
  EXPECT_EQ(Allowed(rules, kCheck), Everybody());
  for (const char* const path : {kGenerate, kReflection, kUnknown}) {
    EXPECT_EQ(Allowed(rules, path), Names({"client-and-key", "key"})) << path;
  }
  EXPECT_EQ(Allowed(rules, kStatus), Names({"client-and-key", "key", "operator", "router"}));
}

TEST(CallPolicyTest, RequiredCertificatesNeedTheRoleOfAClientToo) {
  const CallRules rules = {.port = Port::kClients, .requires_certificate = true};
  for (const char* const path : {kGenerate, kReflection, kUnknown}) {
    EXPECT_EQ(Allowed(rules, path), Names({"client", "client-and-key", "operator"})) << path;
  }
  EXPECT_EQ(Allowed(rules, kStatus), Names({"client", "client-and-key", "operator", "router"}));
  const CallRules both = {.port = Port::kClients, .requires_key = true, .requires_certificate = true};
  EXPECT_EQ(Allowed(both, kGenerate), Names({"client-and-key"}));
}

TEST(CallPolicyTest, PathsOfHttpNeedWhatCallsOfGrpcNeed) {
  for (const bool key : {false, true}) {
    for (const bool certificate : {false, true}) {
      const CallRules http = {.port = Port::kHttp, .requires_key = key, .requires_certificate = certificate};
      const CallRules grpc = {.port = Port::kClients, .requires_key = key, .requires_certificate = certificate};
      for (const char* const path :
           {"/v1/chat/completions", "/tokenize", "/", "", "/health/x", "/grpc.health.v1.Health/Check"}) {
        for (const auto& [name, caller] : kCallers) {
          EXPECT_EQ(Authorize(http, path, caller).code(), Authorize(grpc, kGenerate, caller).code()) << name << path;
        }
        EXPECT_EQ(NeedsKey(http, path), key) << path;
      }
      for (const char* const path : {"/health", "/ping", "/version"}) {
        for (const auto& [name, caller] : kCallers) EXPECT_TRUE(Authorize(http, path, caller).ok()) << name << path;
        EXPECT_FALSE(NeedsKey(http, path)) << path;
      }
    }
  }
}

TEST(CallPolicyTest, OnlyOperatorsDrainWorkers) {
  for (const bool key : {false, true}) {
    for (const bool certificate : {false, true}) {
      const CallRules rules = {.port = Port::kClients, .requires_key = key, .requires_certificate = certificate};
      for (const auto& [name, caller] : kCallers) {
        const absl::Status status = Authorize(rules, kDrainWorker, caller);
        EXPECT_EQ(status.code(), name == "operator"       ? absl::StatusCode::kOk
                                 : caller.has_certificate ? absl::StatusCode::kPermissionDenied
                                                          : absl::StatusCode::kUnauthenticated)
            << name << " " << key << certificate;
      }
      // To look at a drain is like looking at the status.
      EXPECT_EQ(Allowed(rules, kGetDrain), Allowed(rules, kStatus));
    }
  }
}

TEST(CallPolicyTest, ACallWithoutAMethodIsRefused) {
  for (const Port port : {Port::kClients, Port::kCluster, Port::kWorker}) {
    for (const char* const path : {"", "/", "Generate", "/Generate"}) {
      EXPECT_EQ(Authorize({.port = port}, path, kCallers.at("mixed")).code(), absl::StatusCode::kPermissionDenied)
          << path;
    }
  }
}

TEST(CallPolicyTest, OnlyHealthNeedsNoKey) {
  const CallRules rules = {.port = Port::kClients, .requires_key = true};
  EXPECT_TRUE(NeedsKey(rules, kGenerate));
  EXPECT_TRUE(NeedsKey(rules, kStatus));
  EXPECT_TRUE(NeedsKey(rules, ""));
  EXPECT_TRUE(NeedsKey(rules, "/grpc.health.v1.HealthX/Check"));
  EXPECT_FALSE(NeedsKey(rules, kCheck));
  EXPECT_FALSE(NeedsKey({.port = Port::kClients}, kGenerate));
}

TEST(CallPolicyTest, RolesAreUrisOfBaton) {
  const auto role = ParseRoleUri("spiffe://example.org/baton/decode-worker");
  ASSERT_TRUE(role.has_value());
  EXPECT_EQ(role->trust_domain, "example.org");
  EXPECT_EQ(role->role, Role::kDecodeWorker);
  for (const char* const uri :
       {"", "spiffe://", "spiffe:///baton/router", "spiffe://d/baton/", "spiffe://d/baton/routers", "spiffe://d/baton",
        "spiffe://d/x/baton/router", "spiffe://d/baton/router/", "https://d/baton/router", "SPIFFE://d/baton/router",
        "spiffe://d/baton/Router", " spiffe://d/baton/router"}) {
    EXPECT_FALSE(ParseRoleUri(uri).has_value()) << uri;
  }
}

TEST(CallPolicyTest, AKeyFollowsTheWordBearer) {
  EXPECT_EQ(BearerKey("Bearer abc"), "abc");
  EXPECT_EQ(BearerKey("bearer abc"), "abc");
  for (const char* const header : {"", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"}) {
    EXPECT_FALSE(BearerKey(header).has_value()) << header;
  }
}

TEST(CallPolicyTest, ASetKnowsItsRoles) {
  const RoleSet set = {Role::kRouter, Role::kClient};
  EXPECT_TRUE(set.HasAll({Role::kRouter}));
  EXPECT_FALSE(set.HasAll({Role::kRouter, Role::kOperator}));
  EXPECT_TRUE(set.HasAny({Role::kRouter, Role::kOperator}));
  EXPECT_FALSE(set.HasAny({}));
  EXPECT_EQ(RoleNames(set, " and "), "router and client");
}

}  // namespace
}  // namespace baton::rpc
