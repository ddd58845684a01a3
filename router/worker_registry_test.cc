#include "router/worker_registry.h"

#include "common/limits.h"
#include "gmock/gmock.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;

TEST(WorkerRegistryTest, AWorkerJoinsOnceAndLeaves) {
  WorkerRegistry registry;
  const WorkerInfo info = MakeWorker(1, WorkerRole::kMixed);
  EXPECT_TRUE(registry.Join(info, 0).ok());
  ASSERT_NE(registry.Find(info.id), nullptr);
  EXPECT_EQ(registry.Find(info.id)->load.free_blocks, 100);
  EXPECT_TRUE(registry.Leave(info.id));
  EXPECT_FALSE(registry.Leave(info.id));
  EXPECT_EQ(registry.Find(info.id), nullptr);
  EXPECT_TRUE(registry.Join(info, 0).ok());
}

TEST(WorkerRegistryTest, NonsenseIsRefused) {
  const auto refused = [](auto spoil) {
    WorkerRegistry registry;
    WorkerInfo info = MakeWorker(1, WorkerRole::kDecode);
    spoil(info);
    return absl::IsInvalidArgument(registry.Join(info, 0)) && registry.workers().empty();
  };
  EXPECT_FALSE(refused([](WorkerInfo&) {}));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.id = {}; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.incarnation = {}; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.target.clear(); }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.fingerprint.clear(); }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.total_blocks = 0; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.headroom_blocks = -1; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.headroom_blocks = info.total_blocks + 1; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.max_sequences = 0; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.chunk_tokens = -1; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.context_length = 0; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.groups = {.full = 0}; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.groups = {.full = -1, .sliding = 3, .window = 16}; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.groups = {.full = 1, .sliding = 1}; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.groups = {.full = 1 << 20}; }));
}

TEST(WorkerRegistryTest, GroupsWhoseSumOverflowsAreRefused) {
  WorkerInfo info = MakeWorker(1, WorkerRole::kDecode);
  info.groups = {.full = 1 << 30, .sliding = 1 << 30, .window = 16};
  EXPECT_TRUE(absl::IsInvalidArgument(WorkerRegistry().CheckJoin(info)));
}

TEST(WorkerRegistryTest, TheTextsOfAWorkerAreBounded) {
  const std::string longest(kMaxWorkerTextBytes, 'x');
  WorkerInfo info = MakeWorker(1, WorkerRole::kDecode);
  info.target = info.model = info.fingerprint = longest;
  EXPECT_TRUE(WorkerRegistry().CheckJoin(info).ok());
  for (std::string* text : {&info.target, &info.model, &info.fingerprint}) {
    *text += 'x';
    EXPECT_TRUE(absl::IsInvalidArgument(WorkerRegistry().CheckJoin(info)));
    *text = longest;
  }
}

TEST(WorkerRegistryTest, AProcessJoinsOnceUnlessItResumesItsMembership) {
  WorkerRegistry registry;
  const WorkerInfo info = MakeWorker(1, WorkerRole::kMixed);
  ASSERT_TRUE(registry.Join(info, 0).ok());
  WorkerInfo again = MakeWorker(2, WorkerRole::kMixed);
  again.incarnation = info.incarnation;
  const absl::Status refused = registry.Join(again, 0);
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_EQ(refused.ToString().find(info.id.ToHex()), std::string::npos) << "a membership is secret: " << refused;
  again.resumes = MakeWorkerId(7);
  EXPECT_TRUE(absl::IsAlreadyExists(registry.CheckJoin(again))) << "that is not its membership";
  again.resumes = info.id;
  EXPECT_TRUE(registry.CheckJoin(again).ok());
  registry.Leave(info.id);
  EXPECT_TRUE(registry.Join(again, 0).ok());
  EXPECT_EQ(registry.FindProcess(info.incarnation)->info.id, again.id);
}

TEST(WorkerRegistryTest, AResumedMembershipNeedsNoPlaceOfItsOwn) {
  WorkerRegistry registry;
  for (uint64_t n = 1; n <= kMaxWorkers; ++n) {
    ASSERT_TRUE(registry.Join(MakeWorker(n, WorkerRole::kDecode), 0).ok());
  }
  WorkerInfo again = MakeWorker(kMaxWorkers + 1, WorkerRole::kDecode);
  EXPECT_TRUE(absl::IsResourceExhausted(registry.CheckJoin(again)));
  again.incarnation = MakeIncarnation(1);
  again.resumes = MakeWorkerId(1);
  EXPECT_TRUE(registry.CheckJoin(again).ok());
}

TEST(WorkerRegistryTest, WorkersAreBounded) {
  WorkerRegistry registry;
  for (uint64_t n = 1; n <= kMaxWorkers; ++n) {
    ASSERT_TRUE(registry.Join(MakeWorker(n, WorkerRole::kDecode), 0).ok()) << n;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(registry.Join(MakeWorker(kMaxWorkers + 1, WorkerRole::kDecode), 0)));
}

TEST(WorkerRegistryTest, ServingWorkersAreGroupedByFingerprintInOrderOfId) {
  WorkerRegistry registry;
  for (const uint64_t n : {3, 1, 2}) {
    WorkerInfo info = MakeWorker(n, WorkerRole::kDecode);
    info.fingerprint = n == 2 ? "g" : "f";
    ASSERT_TRUE(registry.Join(info, 0).ok());
  }
  const auto ids_of = [&](const char* fingerprint) {
    std::vector<uint64_t> ids;
    const auto it = registry.serving_groups().find(fingerprint);
    if (it == registry.serving_groups().end()) return ids;
    for (const Worker* worker : it->second) ids.push_back(worker->info.id.low);
    return ids;
  };
  EXPECT_THAT(ids_of("f"), ElementsAre(1, 3));
  EXPECT_THAT(ids_of("g"), ElementsAre(2));
  registry.Heartbeat(MakeWorkerId(1), {.state = WorkerState::kDraining}, 1);
  EXPECT_THAT(ids_of("f"), ElementsAre(3));
  registry.Heartbeat(MakeWorkerId(1), {.state = WorkerState::kServing}, 2);
  EXPECT_THAT(ids_of("f"), ElementsAre(1, 3));
  registry.Leave(MakeWorkerId(2));
  EXPECT_THAT(ids_of("g"), ElementsAre());
}

TEST(WorkerRegistryTest, CanServeWhileTheServingWorkersOfOneFingerprintComputePromptsAndOutputs) {
  WorkerRegistry registry;
  EXPECT_FALSE(registry.CanServe());
  ASSERT_TRUE(registry.Join(MakeWorker(1, WorkerRole::kPrefill), 0).ok());
  WorkerInfo other = MakeWorker(2, WorkerRole::kDecode);
  other.fingerprint = "other";
  ASSERT_TRUE(registry.Join(other, 0).ok());
  EXPECT_FALSE(registry.CanServe()) << "KV does not move between fingerprints";
  ASSERT_TRUE(registry.Join(MakeWorker(3, WorkerRole::kDecode), 0).ok());
  EXPECT_TRUE(registry.CanServe());
  registry.Heartbeat(MakeWorkerId(1), {.state = WorkerState::kDraining}, 1);
  EXPECT_FALSE(registry.CanServe());
  ASSERT_TRUE(registry.Join(MakeWorker(4, WorkerRole::kMixed), 0).ok());
  registry.Leave(MakeWorkerId(3));
  EXPECT_TRUE(registry.CanServe());
  registry.Leave(MakeWorkerId(4));
  EXPECT_FALSE(registry.CanServe());
}

TEST(WorkerRegistryTest, AFingerprintKeepsItsLetterUntilItsLastMemberLeaves) {
  WorkerRegistry registry;
  const auto join = [&registry](uint64_t n, const std::string& fingerprint) {
    WorkerInfo info = MakeWorker(n, WorkerRole::kDecode);
    info.fingerprint = fingerprint;
    ASSERT_TRUE(registry.Join(info, 0).ok());
  };
  join(1, "z");
  join(2, "a");
  EXPECT_EQ(registry.GroupName("z"), "A");
  EXPECT_EQ(registry.GroupName("a"), "B");
  join(3, "a");
  registry.Leave(MakeWorkerId(2));
  registry.Heartbeat(MakeWorkerId(3), {.state = WorkerState::kDraining}, 1);
  registry.Leave(MakeWorkerId(1));
  EXPECT_EQ(registry.GroupName("a"), "B") << "a draining worker is a member";
  join(4, "y");
  EXPECT_EQ(registry.GroupName("y"), "A") << "the lowest letter that is free";
  for (uint64_t n = 0; n < 26; ++n) join(10 + n, "more" + std::to_string(10 + n));
  EXPECT_EQ(registry.GroupName("more33"), "Z");
  EXPECT_EQ(registry.GroupName("more35"), "AB");
}

TEST(WorkerRegistryTest, SilentAreThoseNotHeardSince) {
  WorkerRegistry registry;
  for (uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(registry.Join(MakeWorker(n, WorkerRole::kDecode), 10).ok());
  EXPECT_TRUE(registry.Heartbeat(MakeWorkerId(2), {.used_blocks = 5}, 20));
  EXPECT_EQ(registry.Find(MakeWorkerId(2))->load.used_blocks, 5);
  EXPECT_FALSE(registry.Heartbeat(MakeWorkerId(9), {}, 20));
  EXPECT_TRUE(registry.Silent(9).empty());
  EXPECT_THAT(registry.Silent(10), ElementsAre(MakeWorkerId(1), MakeWorkerId(3)));
  EXPECT_EQ(registry.Silent(20).size(), 3u);
}

}  // namespace
}  // namespace baton::router
