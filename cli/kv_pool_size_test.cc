#include "cli/kv_pool_size.h"

#include <string>

#include "engine/testing/fake_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kOneMiB = 1 << 20;

// A device of 1,000 blocks, of which this process holds 100 and others none; a pool takes 10 blocks more than it has.
class KvPoolSizeTest : public ::testing::Test {
 protected:
  KvPoolSizeTest() { memory_ = {.total = 1000 * block_, .free = 900 * block_, .own = 100 * block_}; }

  absl::StatusOr<KvPoolSize> Choose(const EngineFlags& flags, int sharing = 1, uint64_t beside_pool_bytes = 0) const {
    return ChooseKvPoolSize(flags, device_, sharing, beside_pool_bytes, runner_);
  }
  int32_t Blocks(const EngineFlags& flags, int sharing = 1, uint64_t beside_pool_bytes = 0) const {
    const absl::StatusOr<KvPoolSize> size = Choose(flags, sharing, beside_pool_bytes);
    EXPECT_TRUE(size.ok()) << size.status();
    return size.ok() ? size->blocks : 0;
  }
  static EngineFlags Share(double share) {
    EngineFlags flags;
    flags.gpu_memory_utilization = share;
    return flags;
  }
  static EngineFlags Size(const std::string& bytes) {
    EngineFlags flags;
    flags.kv_memory = bytes;
    return flags;
  }

  // A plug-in's function finds it here.
  static inline engine::DeviceMemory memory_;
  const engine::DevicePluginTable plugin_{
      .memory = [](const engine::ModelRunner&) { return absl::StatusOr<engine::DeviceMemory>(memory_); }};
  class ModelWithSpareBlocks final : public engine::FakeModel {
   public:
    using FakeModel::FakeModel;
    int32_t spare_blocks() const override { return 10; }
  };
  const ModelWithSpareBlocks runner_{engine::FakeModelOptions{}};
  const uint64_t block_ = runner_.kv_layout().block_bytes();
  ModelDevice device_{.plugin = &plugin_, .ordinal = 1};
};

TEST_F(KvPoolSizeTest, ASizeThatIsGivenDecidesOnADeviceToo) {
  const absl::StatusOr<KvPoolSize> size = Choose(Size("1MiB"));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(static_cast<uint64_t>(size->blocks), kOneMiB / block_);
  EXPECT_EQ(size->why, "");
  EXPECT_THAT(std::string(Choose(Size("1B")).status().message()), HasSubstr("--kv-memory 1B holds 0 blocks"));
}

TEST_F(KvPoolSizeTest, TheHostHasItsOwnDefault) {
  device_ = {};
  EXPECT_EQ(static_cast<uint64_t>(Blocks({})), ParseByteSize(kHostKvMemory) / block_);
}

TEST_F(KvPoolSizeTest, ADeviceLeavesThePoolItsShareLessWhatTheWorkerHolds) {
  EXPECT_EQ(Blocks(Share(0.5)), 500 - 100 - 10);
  EXPECT_EQ(Blocks(Share(1)), 1000 - 100 - 10);
  // Whole blocks.
  memory_.own += 1;
  EXPECT_EQ(Blocks(Share(0.5)), 500 - 100 - 10 - 1);
}

TEST_F(KvPoolSizeTest, NineTenthsAreTheDefaultAndTheLineSaysWhatWasCounted) {
  EXPECT_EQ(Blocks({}), Blocks(Share(0.9)));
  memory_ = {.total = 1000 * kOneMiB, .free = 900 * kOneMiB, .own = 100 * kOneMiB};
  const absl::StatusOr<KvPoolSize> size = Choose(Share(0.75));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_THAT(size->why, HasSubstr("a KV pool of 650.0 MiB, "));
  EXPECT_THAT(size->why, HasSubstr("by --gpu-memory-utilization 0.75: of the 1000.0 MiB of cuda:1 it gives this worker "
                                   "750.0 MiB, of which weights, scratch and driver take 100.0 MiB"));
}

TEST_F(KvPoolSizeTest, WorkersOfOneSupervisorDivideTheShare) {
  EXPECT_EQ(Blocks(Share(0.5), /*sharing=*/2), 250 - 100 - 10);
  const absl::StatusOr<KvPoolSize> size = Choose(Share(0.5), /*sharing=*/2);
  EXPECT_THAT(size->why, HasSubstr(" of cuda:1, divided among 2 workers, it gives this worker "));
}

TEST_F(KvPoolSizeTest, AShareThatHoldsNoSequenceIsRefusedWithWhatToDo) {
  EXPECT_EQ(Blocks(Share(0.1125)), 2);
  for (const double share : {0.111, 0.01}) {
    const absl::Status status = Choose(Share(share)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("--gpu-memory-utilization 0."), HasSubstr("and needs 2: give a larger share")));
  }
}

TEST_F(KvPoolSizeTest, AShareOfWhichOthersHoldAPartIsRefusedWithWhatToDo) {
  memory_.free = 400 * block_;
  EXPECT_EQ(Blocks(Share(0.5)), 390);
  const absl::Status status = Choose(Share(0.6)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("other processes use the device"),
                                                   HasSubstr("give a smaller share, or a size by --kv-memory")));
}

TEST_F(KvPoolSizeTest, WhatLiesBehindThePoolOnADeviceIsNotThePools) {
  EXPECT_EQ(Blocks(Share(0.5), 1, 20 * block_), 500 - 100 - 10 - 20);
}

}  // namespace
}  // namespace baton::cli
