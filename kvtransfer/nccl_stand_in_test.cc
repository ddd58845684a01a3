// The rules that the stand-in has of NCCL: without them the tests of the transport would prove little.
#include "kvtransfer/testing/nccl_stand_in.h"

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace baton::kvtransfer {
namespace {

constexpr size_t kSmall = 4096;
// More than the sockets of a pair hold.
constexpr size_t kLarge = 64u << 20;

nccl::Result AsyncError(nccl::Comm comm) {
  nccl::Result error = nccl::kSuccess;
  EXPECT_EQ(StandIn().comm_get_async_error(comm, &error), nccl::kSuccess);
  return error;
}

nccl::Result AwaitSettled(nccl::Comm comm) {
  nccl::Result error = nccl::kInProgress;
  while (error == nccl::kInProgress) {
    std::this_thread::yield();
    error = AsyncError(comm);
  }
  return error;
}

nccl::Result AwaitFailure(nccl::Comm comm) {
  nccl::Result error = nccl::kSuccess;
  while (error == nccl::kSuccess || error == nccl::kInProgress) {
    std::this_thread::yield();
    error = AsyncError(comm);
  }
  return error;
}

// A rank with a stream.
struct Rank {
  Rank(int number, const nccl::UniqueId& id) : number(number) {
    nccl::Config config;
    config.blocking = 0;
    formed = StandIn().comm_init_rank_config(&comm, 2, id, number, &config);
  }
  ~Rank() {
    Abort();
    StandInFunction<void(void*)>("batonStandInStreamDestroy")(stream);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void Abort() {
    if (comm != nullptr) StandIn().comm_abort(comm);
    comm = nullptr;
  }
  nccl::Result Send(const std::vector<uint8_t>& bytes) {
    return StandIn().send(bytes.data(), bytes.size(), nccl::kUint8, 1 - number, comm, stream);
  }
  nccl::Result Receive(std::vector<uint8_t>& bytes) {
    return StandIn().receive(bytes.data(), bytes.size(), nccl::kUint8, 1 - number, comm, stream);
  }
  // Once all before has ended.
  void SetWhenDone(std::atomic<bool>& done) {
    StandInFunction<void(void*, void (*)(void*), void*)>("batonStandInStreamCall")(
        stream, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &done);
  }
  void AwaitDone() {
    std::atomic<bool> done = false;
    SetWhenDone(done);
    while (!done) std::this_thread::yield();
  }

  const int number;
  nccl::Comm comm = nullptr;
  void* stream = StandInFunction<void*()>("batonStandInStreamCreate")();
  nccl::Result formed = nccl::kSuccess;
};

nccl::UniqueId DrawId() {
  nccl::UniqueId id;
  EXPECT_EQ(StandIn().get_unique_id(&id), nccl::kSuccess);
  return id;
}

class NcclStandInTest : public testing::Test {
 protected:
  NcclStandInTest() {
    EXPECT_EQ(AwaitSettled(first_.comm), nccl::kSuccess);
    EXPECT_EQ(AwaitSettled(second_.comm), nccl::kSuccess);
  }

  const nccl::UniqueId id_ = DrawId();
  Rank first_{0, id_};
  Rank second_{1, id_};
};

TEST(NcclStandInFormingTest, CommunicatorIsInProgressUntilTheOtherRankComes) {
  const nccl::UniqueId id = DrawId();
  Rank first(0, id);
  EXPECT_EQ(first.formed, nccl::kInProgress);
  EXPECT_EQ(AsyncError(first.comm), nccl::kInProgress);
  EXPECT_EQ(first.Send(std::vector<uint8_t>(1)), nccl::kInvalidArgument);
  Rank second(1, id);
  EXPECT_EQ(AwaitSettled(first.comm), nccl::kSuccess);
  EXPECT_EQ(AwaitSettled(second.comm), nccl::kSuccess);
}

TEST(NcclStandInFormingTest, AbortEndsForming) {
  Rank first(0, DrawId());
  first.Abort();
}

TEST(NcclStandInFormingTest, DamagedConfigAndRanksAreRefused) {
  const nccl::UniqueId id = DrawId();
  nccl::Comm comm = nullptr;
  nccl::Config config;
  config.magic = 1;
  EXPECT_EQ(StandIn().comm_init_rank_config(&comm, 2, id, 0, &config), nccl::kInvalidArgument);
  config = {};
  EXPECT_EQ(StandIn().comm_init_rank_config(&comm, 2, id, 2, &config), nccl::kInvalidArgument);
  EXPECT_EQ(StandIn().comm_init_rank_config(&comm, 3, id, 0, &config), nccl::kInvalidArgument);
}

TEST_F(NcclStandInTest, OperationsMatchInTheOrderOfIssue) {
  const std::vector<uint8_t> a(kSmall, 'a');
  const std::vector<uint8_t> b(kSmall, 'b');
  std::vector<uint8_t> got_a(kSmall);
  std::vector<uint8_t> got_b(kSmall);
  for (const auto* bytes : {&a, &b}) {
    EXPECT_EQ(first_.Send(*bytes), nccl::kInProgress);
    EXPECT_EQ(AwaitSettled(first_.comm), nccl::kSuccess);
  }
  for (auto* bytes : {&got_a, &got_b}) {
    EXPECT_EQ(second_.Receive(*bytes), nccl::kInProgress);
    EXPECT_EQ(AwaitSettled(second_.comm), nccl::kSuccess);
  }
  first_.AwaitDone();
  second_.AwaitDone();
  EXPECT_EQ(got_a, a);
  EXPECT_EQ(got_b, b);
}

TEST_F(NcclStandInTest, SendEndsNoSoonerThanItsReceiveCame) {
  const std::vector<uint8_t> sent(1, 'x');
  std::vector<uint8_t> got(1);
  std::atomic<bool> done = false;
  first_.Send(sent);
  EXPECT_EQ(AwaitSettled(first_.comm), nccl::kSuccess);
  first_.SetWhenDone(done);
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
    EXPECT_FALSE(done);
  }
  second_.Receive(got);
  while (!done) std::this_thread::yield();
  second_.AwaitDone();
  EXPECT_EQ(got, sent);
}

TEST_F(NcclStandInTest, SendsAndReceivesOfAGroupProgressTogether) {
  const std::vector<uint8_t> sent(kLarge, 'x');
  std::vector<uint8_t> got_first(kLarge);
  std::vector<uint8_t> got_second(kLarge);
  const auto exchange = [&sent](Rank& rank, std::vector<uint8_t>& got) {
    StandIn().group_start();
    EXPECT_EQ(rank.Send(sent), nccl::kSuccess);
    EXPECT_EQ(rank.Receive(got), nccl::kSuccess);
    EXPECT_EQ(StandIn().group_end(), nccl::kInProgress);
    EXPECT_EQ(AwaitSettled(rank.comm), nccl::kSuccess);
  };
  exchange(first_, got_first);
  exchange(second_, got_second);
  first_.AwaitDone();
  second_.AwaitDone();
  EXPECT_EQ(got_first, sent);
  EXPECT_EQ(got_second, sent);
}

TEST_F(NcclStandInTest, WithoutAGroupTwoSendsWaitForEachOtherUntilAbort) {
  const std::vector<uint8_t> sent(kLarge, 'x');
  std::vector<uint8_t> got(kLarge);
  std::atomic<bool> first_done = false;
  std::atomic<bool> second_done = false;
  for (Rank* rank : {&first_, &second_}) {
    rank->Send(sent);
    EXPECT_EQ(AwaitSettled(rank->comm), nccl::kSuccess);
    rank->Receive(got);
    EXPECT_EQ(AwaitSettled(rank->comm), nccl::kSuccess);
  }
  first_.SetWhenDone(first_done);
  second_.SetWhenDone(second_done);
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(first_done || second_done);
  first_.Abort();
  EXPECT_EQ(AwaitFailure(second_.comm), nccl::kRemoteError);
  second_.Abort();
  while (!first_done || !second_done) std::this_thread::yield();
}

TEST_F(NcclStandInTest, SizesThatDifferAreInvalidUsageOfBothForGood) {
  const std::vector<uint8_t> sent(kSmall);
  std::vector<uint8_t> got(kSmall - 1);
  first_.Send(sent);
  second_.Receive(got);
  EXPECT_EQ(AwaitFailure(first_.comm), nccl::kInvalidUsage);
  EXPECT_EQ(AwaitFailure(second_.comm), nccl::kInvalidUsage);
  EXPECT_EQ(first_.Send(sent), nccl::kInvalidUsage);
  EXPECT_EQ(second_.Receive(got), nccl::kInvalidUsage);
}

TEST_F(NcclStandInTest, FailedOperationHoldsItsStreamUntilAbort) {
  std::vector<uint8_t> got(kSmall);
  std::atomic<bool> done = false;
  second_.Receive(got);
  EXPECT_EQ(AwaitSettled(second_.comm), nccl::kSuccess);
  second_.SetWhenDone(done);
  first_.Abort();
  EXPECT_EQ(AwaitFailure(second_.comm), nccl::kRemoteError);
  EXPECT_FALSE(done);
  second_.Abort();
  while (!done) std::this_thread::yield();
}

TEST_F(NcclStandInTest, HandleIsUnknownAfterAbort) {
  const nccl::Comm comm = first_.comm;
  first_.Abort();
  nccl::Result error = nccl::kSuccess;
  EXPECT_EQ(StandIn().comm_get_async_error(comm, &error), nccl::kInvalidArgument);
}

}  // namespace
}  // namespace baton::kvtransfer
