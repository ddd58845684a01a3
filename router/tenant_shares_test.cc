#include "router/tenant_shares.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

TEST(TenantSharesTest, ATenantYieldsOnceItIsMoreThanTheQuantumAheadOfAnotherThatWaits) {
  TenantShares shares;
  for (const char* tenant : {"a", "b"}) shares.OnWaiting(tenant, 0, 0);
  shares.OnPlaced("a", {.cost = kQuantumTokens});
  EXPECT_FALSE(shares.Update());
  EXPECT_FALSE(shares.yields("a"));
  shares.OnPlaced("a", {.cost = 1});
  EXPECT_TRUE(shares.Update());
  EXPECT_TRUE(shares.yields("a"));
  EXPECT_FALSE(shares.yields("b"));
  shares.OnPlaced("b", {.cost = 1});
  EXPECT_TRUE(shares.Update());
  EXPECT_FALSE(shares.yields("a"));
}

TEST(TenantSharesTest, ATenantThatWaitsAloneNeverYields) {
  TenantShares shares;
  shares.OnWaiting("a", 0, 0);
  shares.OnPlaced("a", {.cost = 100 * kQuantumTokens});
  EXPECT_FALSE(shares.Update());
  EXPECT_FALSE(shares.yields("a"));
}

TEST(TenantSharesTest, ATenantThatComesLaterIsNotAheadOfThoseThatWait) {
  TenantShares shares;
  shares.OnWaiting("a", 0, 0);
  shares.OnPlaced("a", {.cost = 10 * kQuantumTokens});
  shares.OnWaiting("b", 0, 0);
  shares.Update();
  EXPECT_FALSE(shares.yields("a")) << "b saved nothing up while it was away";
  shares.OnPlaced("a", {.cost = kQuantumTokens + 1});
  shares.Update();
  EXPECT_TRUE(shares.yields("a"));
}

TEST(TenantSharesTest, ATenantThatComesAfterAPauseIsNotAheadEither) {
  TenantShares shares;
  shares.OnWaiting("a", 0, 0);
  shares.OnPlaced("a", {.cost = 10 * kQuantumTokens});
  shares.OnWaitingEnded("a", 0);
  shares.OnWaiting("b", 0, 0);
  shares.OnWaiting("a", 0, 0);
  shares.Update();
  EXPECT_FALSE(shares.yields("a"));
}

TEST(TenantSharesTest, WhatAJobReallyCostSetsTheCounterRight) {
  TenantShares shares;
  for (const char* tenant : {"a", "b"}) shares.OnWaiting(tenant, 0, 0);
  shares.OnPlaced("a", {.cost = kQuantumTokens + 100});
  shares.Update();
  EXPECT_TRUE(shares.yields("a"));
  shares.OnEnded("a", -100);
  shares.Update();
  EXPECT_FALSE(shares.yields("a"));
  shares.OnPlaced("a", {.cost = 0});
  shares.OnEnded("a", 1);
  shares.Update();
  EXPECT_TRUE(shares.yields("a"));
}

TEST(TenantSharesTest, AheadOfATenantIsWhatOthersGetUntilTheyYield) {
  TenantShares shares;
  shares.OnWaiting("small", 100, 0);
  shares.OnWaiting("large", 100 * kQuantumTokens, 0);
  EXPECT_EQ(shares.CostAhead("other"), 100 + kQuantumTokens);
  shares.OnPlaced("large", {.cost = kQuantumTokens - 10});
  EXPECT_EQ(shares.CostAhead("other"), 100 + 10) << "it yields soon";
  EXPECT_EQ(shares.CostAhead("small"), 100 + 100 + 10) << "its own, and what the other gets while these are served";
  shares.OnPlaced("large", {.cost = 1'000});
  EXPECT_EQ(shares.CostAhead("other"), 100);
  EXPECT_EQ(shares.CostAhead("large"), 100 * kQuantumTokens + 100);
}

TEST(TenantSharesTest, ManyTenantsCountWithAllThatTheyWaitFor) {
  TenantShares shares;
  for (int i = 0; i < 1'000; ++i) shares.OnWaiting(std::to_string(i), 10, 0);
  EXPECT_EQ(shares.CostAhead("other"), 10'000);
}

TEST(TenantSharesTest, ATenantsOwnPaceTellsWhatOthersTakeThatComeLater) {
  TenantShares shares;
  shares.OnWaiting("a", 1'000, 0);
  TimeNs now = 0;
  for (int i = 0; i < 2 * kPlacementsRemembered; ++i) {
    now += kNsPerSecond;
    shares.OnPlaced("a", {.cost = 10, .waits_since = now - kNsPerSecond, .now = now});
  }
  EXPECT_NEAR(static_cast<double>(shares.OwnWaitNs("a", 1'000'000, now)), 100.0 * kNsPerSecond, 100);
  EXPECT_NEAR(static_cast<double>(shares.OwnWaitNs("a", 20, now)), 2.0 * kNsPerSecond, 100);
  EXPECT_EQ(shares.OwnWaitNs("b", 1'000'000, now), 0);
}

TEST(TenantSharesTest, ATenantWithoutJobsIsForgotten) {
  TenantShares shares;
  shares.OnWaiting("a", 0, 0);
  shares.OnWaiting("a", 0, 0);
  shares.OnPlaced("a", {.cost = 5});
  shares.OnWaitingEnded("a", 0);
  EXPECT_EQ(shares.waiting("a"), 1);
  shares.OnWaitingEnded("a", 0);
  EXPECT_EQ(shares.size(), 1u);
  shares.OnEnded("a", 0);
  EXPECT_EQ(shares.size(), 0u);
  EXPECT_EQ(shares.waiting("a"), 0);
}

}  // namespace
}  // namespace baton::router
