#include "discovery/announcements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/limits.h"

namespace baton::discovery {
namespace {

namespace pb = internal::v1;
using ::testing::ElementsAre;

constexpr Incarnation kProcess = {.high = 0x0123456789abcdef, .low = 1};

TEST(AnnouncementsTest, KeysNameTheKindAndTheProcess) {
  EXPECT_EQ(RouterKey("/baton", kProcess), "/baton/routers/0123456789abcdef0000000000000001");
  EXPECT_EQ(WorkerKey("/a/b", kProcess), "/a/b/workers/0123456789abcdef0000000000000001");
}

TEST(AnnouncementsTest, WhatIsWrittenIsRead) {
  pb::RouterAnnouncement router;
  router.set_cluster("192.0.2.1:50050");
  router.set_model("m");
  pb::WorkerAnnouncement worker;
  worker.mutable_hello()->set_incarnation(std::string("\0\xff\x80 0123456789abc", 16));
  worker.mutable_hello()->set_role(pb::WORKER_ROLE_DECODE);
  worker.mutable_hello()->set_total_blocks(512);
  const Fleet fleet = ReadFleet(
      "/baton", {{RouterKey("/baton", kProcess), ToJson(router)}, {WorkerKey("/baton", kProcess), ToJson(worker)}});
  ASSERT_EQ(fleet.routers.size(), 1u);
  EXPECT_EQ(fleet.routers[0].SerializeAsString(), router.SerializeAsString());
  ASSERT_EQ(fleet.workers.size(), 1u);
  EXPECT_EQ(fleet.workers[0].SerializeAsString(), worker.SerializeAsString());
  EXPECT_THAT(fleet.unreadable, ElementsAre());
}

TEST(AnnouncementsTest, PeopleCanReadAValue) {
  pb::RouterAnnouncement router;
  router.set_cluster("192.0.2.1:50050");
  router.set_model("smollm2");
  EXPECT_EQ(ToJson(router), R"({"cluster":"192.0.2.1:50050","model":"smollm2"})");
}

TEST(AnnouncementsTest, AWorkerFollowsTheRoutersOfItsModelOnceEach) {
  Fleet fleet;
  const auto add = [&fleet](const std::string& cluster, const std::string& model) {
    pb::RouterAnnouncement& router = fleet.routers.emplace_back();
    router.set_cluster(cluster);
    router.set_model(model);
  };
  add("a:1", "m");
  add("b:1", "other");
  add("a:1", "m");
  add("", "m");
  add("c:1", "m");
  EXPECT_THAT(ClusterTargets(fleet, "m"), ElementsAre("a:1", "c:1"));
  for (size_t i = 0; i < kMaxRouters; ++i) add("d:" + std::to_string(i), "m");
  EXPECT_EQ(ClusterTargets(fleet, "m").size(), kMaxRouters);
}

TEST(AnnouncementsTest, FieldsOfALaterVersionAreIgnored) {
  const Fleet fleet = ReadFleet("/baton", {{"/baton/routers/1", R"({"cluster":"a:1","zone":{"name":"b"}})"}});
  ASSERT_EQ(fleet.routers.size(), 1u);
  EXPECT_EQ(fleet.routers[0].cluster(), "a:1");
}

TEST(AnnouncementsTest, WhatCannotBeReadIsNamedAndOtherKeysAreNobodys) {
  std::string deep;
  for (int i = 0; i < 1'000; ++i) deep += R"({"hello":)";
  const Fleet fleet = ReadFleet("/baton", {{"/baton/routers/1", "no json"},
                                           {"/baton/routers/2", R"({"cluster":5})"},
                                           {"/baton/workers/1", R"({"hello":{"incarnation":"%%"}})"},
                                           {"/baton/workers/2", deep},
                                           {"/baton/workers/3", ""},
                                           {"/baton/notes", "no json"},
                                           {"/batons/routers/1", "no json"}});
  EXPECT_TRUE(fleet.routers.empty());
  EXPECT_TRUE(fleet.workers.empty());
  EXPECT_THAT(fleet.unreadable, ElementsAre("/baton/routers/1", "/baton/routers/2", "/baton/workers/1",
                                            "/baton/workers/2", "/baton/workers/3"));
}

}  // namespace
}  // namespace baton::discovery
