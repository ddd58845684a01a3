#include "router/drain_wire.h"

#include <memory>
#include <string>

#include "common/random.h"
#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

using ::testing::HasSubstr;

class DrainWireTest : public ::testing::Test {
 protected:
  void Join(uint64_t n, WorkerRole role) {
    WorkerInfo info;
    info.id = {.high = 1, .low = n};
    info.incarnation = {.high = 3, .low = n};
    info.role = role;
    info.target = "host:" + std::to_string(n);
    info.fingerprint = "f";
    info.total_blocks = 50;
    info.max_sequences = 16;
    info.chunk_tokens = 64;
    info.context_length = 4096;
    info.pid = static_cast<int64_t>(100 + n);
    info.drain_timeout_ms = 2'500;
    ASSERT_TRUE(dispatcher_.OnWorkerJoin(info).ok());
  }
  v1::DrainWorkerResponse Order(const std::string& name) {
    v1::DrainWorkerRequest request;
    request.set_worker(name);
    v1::DrainWorkerResponse response;
    EXPECT_TRUE(OrderDrain(dispatcher_, request, &response).ok());
    return response;
  }
  v1::GetDrainResponse Ask(const std::string& incarnation) {
    v1::GetDrainRequest request;
    request.set_incarnation(incarnation);
    v1::GetDrainResponse response;
    EXPECT_TRUE(TellDrain(dispatcher_, request, &response).ok());
    return response;
  }

  ManualClock clock_;
  SeededRandom random_{1};
  Dispatcher dispatcher_{{}, clock_, random_};
};

TEST_F(DrainWireTest, AnOrderNamesTheWorkerAndSaysWhatNobodyElseDoes) {
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kDecode);
  Join(3, WorkerRole::kDecode);
  const v1::DrainWorkerResponse decode = Order("102");
  EXPECT_EQ(decode.address(), "host:2");
  EXPECT_EQ(decode.pid(), 102);
  EXPECT_EQ(decode.role(), "decode");
  EXPECT_EQ(decode.group(), "A");
  EXPECT_EQ(decode.incarnation(), (Incarnation{.high = 3, .low = 2}).ToHex());
  EXPECT_EQ(decode.drain_timeout_ms(), 2'500);
  EXPECT_EQ(decode.last_for(), "");
  EXPECT_EQ(Order("host:1").last_for(), "prefill");
}

TEST_F(DrainWireTest, ADrainIsToldFromTheOrderToTheEnd) {
  Join(1, WorkerRole::kMixed);
  auto job = std::make_shared<JobSpec>();
  job->id = {.high = 2, .low = 1};
  job->prompt.assign(40, 7);
  job->sampling.max_tokens = 4;
  ASSERT_TRUE(dispatcher_.Submit(std::move(job)).ok());
  const std::string worker = Order("host:1").incarnation();
  EXPECT_EQ(Ask(worker).state(), "draining");
  EXPECT_EQ(Ask(worker).open_calls(), 1);
  dispatcher_.OnWorkerLoad({.high = 1, .low = 1}, {.state = WorkerState::kDraining});
  dispatcher_.OnWorkerEnd(Side::kDecode, {.job = {.high = 2, .low = 1}, .attempt = 1}, absl::InternalError("broken"));
  EXPECT_EQ(Ask(worker).open_calls(), 0);
  dispatcher_.OnWorkerLost({.high = 1, .low = 1}, absl::UnavailableError("the worker left"));
  EXPECT_EQ(Ask(worker).state(), "left");
  Join(2, WorkerRole::kMixed);
  const std::string lost = Order("host:2").incarnation();
  dispatcher_.OnWorkerLost({.high = 1, .low = 2}, absl::UnavailableError("its stream broke"));
  EXPECT_EQ(Ask(lost).state(), "lost");
  EXPECT_EQ(Ask(lost).why(), "its stream broke");
}

TEST_F(DrainWireTest, NobodysDrainIsNotFoundAndNonsenseIsNoIncarnation) {
  Join(1, WorkerRole::kMixed);
  v1::GetDrainRequest request;
  v1::GetDrainResponse response;
  request.set_incarnation((Incarnation{.high = 3, .low = 1}).ToHex());
  const absl::Status unordered = TellDrain(dispatcher_, request, &response);
  EXPECT_TRUE(absl::IsNotFound(unordered));
  EXPECT_THAT(std::string(unordered.message()), HasSubstr("has not ordered"));
  for (const char* const nonsense : {"", "17", "host:1"}) {
    request.set_incarnation(nonsense);
    EXPECT_TRUE(absl::IsInvalidArgument(TellDrain(dispatcher_, request, &response))) << nonsense;
  }
}

}  // namespace
}  // namespace baton::router
