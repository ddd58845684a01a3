#include "telemetry/allowed_hosts.h"

#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

TEST(AllowedHosts, LiteralAddressesLocalhostTheBindNameAndNamedHostsAreAllowed) {
  const AllowedHosts hosts("baton.internal", {"router.example.com", "Other.Example."});
  for (const char* host : {"127.0.0.1", "127.0.0.1:9464", "10.1.2.3", "0.0.0.0:1", "[::1]", "[::1]:9464",
                           "[2001:db8::1]", "localhost", "LOCALHOST:80", "localhost.", "baton.internal:9464",
                           "router.example.com", "ROUTER.example.com.:9464", "other.example", "localhost:"}) {
    EXPECT_EQ(hosts.Check(host), HostVerdict::kAllowed) << host;
  }
}

TEST(AllowedHosts, OtherNamesAreRefused) {
  const AllowedHosts hosts("127.0.0.1", {"router.example.com"});
  for (const char* host :
       {"evil.example", "evil.example:9464", "example.com", "x.router.example.com", "localhost.evil.example",
        "127.0.0.1.evil.example", "127.1", "0x7f000001", "2130706433", "", ":9464", "router.example.com.."}) {
    EXPECT_EQ(hosts.Check(host), HostVerdict::kRefused) << host;
  }
}

TEST(AllowedHosts, WhatIsNoAuthorityIsMalformed) {
  const AllowedHosts hosts("127.0.0.1", {"*"});
  for (const char* host :
       {"user@127.0.0.1", "127.0.0.1/", "a b", "a:b", "a:80:80", "::1", "[::1", "[::1]x", "[::1]:x", "[evil]",
        "[127.0.0.1]", "a:123456", "a,b", "\"a\"", "a\x01", "\xC3\xA4.example", "[]", "[fe80::1%eth0]"}) {
    EXPECT_EQ(hosts.Check(host), HostVerdict::kMalformed) << host;
  }
}

TEST(AllowedHosts, AStarAllowsEveryName) {
  const AllowedHosts hosts("127.0.0.1", {"*"});
  EXPECT_EQ(hosts.Check("any.example:1"), HostVerdict::kAllowed);
  EXPECT_EQ(hosts.Check(""), HostVerdict::kRefused);
}

TEST(AllowedHosts, ABindOfAllAddressesAddsNoName) {
  const AllowedHosts hosts("[::]", {});
  EXPECT_EQ(hosts.Check("example.com"), HostVerdict::kRefused);
  EXPECT_EQ(hosts.Check("[::]:9464"), HostVerdict::kAllowed);
}

}  // namespace
}  // namespace baton::telemetry
