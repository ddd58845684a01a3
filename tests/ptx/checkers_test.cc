// Every checker finds its planted bug and is silent on the sound kernel, whatever the seed.
#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CheckersTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    const std::string text = KernelText("planted");
    if (text.empty()) GTEST_SKIP() << "nvcc was not there";
    module = Load(text);
    in = ToDevice(std::vector<float>(256, 1.5F));
    out = Allocate(1024);
    ASSERT_EQ(api.set_bytes_async(out, 0, 1024, nullptr), CUDA_SUCCESS);
  }
  // What a launch finds: with `seed`, and the launch's answer does not matter.
  template <class... Args>
  std::vector<Finding> Run(uint64_t seed, const char* kernel, unsigned grid, unsigned block, Args... args) {
    Options options = base;
    options.seed = seed;
    SetOptions(options);
    EXPECT_EQ(Launch(Function(module, kernel), grid, block, 0, args...), CUDA_SUCCESS);
    return TakeFindings();
  }
  // The bug is found with every seed and nothing else is; without the bug nothing is.
  template <class... Args>
  void Expect(FindingKind kind, const char* kernel, unsigned grid, unsigned block, int bug, Args... args) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      EXPECT_THAT(Texts(Run(seed, kernel, grid, block, args..., 0)), IsEmpty()) << kernel;
      const auto findings = Run(seed, kernel, grid, block, args..., bug);
      EXPECT_THAT(Kinds(findings), AllOf(Not(IsEmpty()), Each(kind)))
          << kernel << " " << bug << " " << testing::PrintToString(Texts(findings));
    }
  }

  Options base;
  CUmodule module = nullptr;
  CUdeviceptr in = 0;
  CUdeviceptr out = 0;
};

TEST_F(CheckersTest, MissingSyncthreadsAreRaces) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_THAT(Texts(Run(seed, "reverse", 1, 128, in, out, 0)), IsEmpty());
    // Who reads before the writer also reads what nobody wrote.
    EXPECT_THAT(Kinds(Run(seed, "reverse", 1, 128, in, out, 1)), Contains(FindingKind::kSharedRace));
    EXPECT_THAT(Kinds(Run(seed, "reverse", 1, 128, in, out, 2)), Contains(FindingKind::kSharedRace));
  }
}

TEST_F(CheckersTest, AFindingSaysWhere) {
  const auto findings = Run(1, "bounds", 2, 64, in, out, 300, 2);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kernel, "bounds");
  EXPECT_GT(findings[0].line, 0);
  EXPECT_THAT(findings[0].source, HasSubstr("ld.global"));
  EXPECT_THAT(findings[0].message, HasSubstr("4 bytes"));
}

TEST_F(CheckersTest, AccessesOutOfBounds) {
  const CUdeviceptr small = Allocate(4 * 100);
  Expect(FindingKind::kOutOfBounds, "bounds", 2, 64, 1, in, small, 100);
  Expect(FindingKind::kOutOfBounds, "bounds", 2, 64, 2, in, out, 100);
  // One element beyond a shared array; what it should have written stays unwritten.
  EXPECT_THAT(Kinds(Run(1, "bounds", 1, 64, in, out, 64, 3)), Contains(FindingKind::kOutOfBounds));
  Expect(FindingKind::kMisaligned, "bounds", 1, 64, 4, in, out, 64);
}

TEST_F(CheckersTest, FreedMemoryIsNotThere) {
  const CUdeviceptr freed = ToDevice(std::vector<float>(128, 1.0F));
  ASSERT_EQ(api.memory_free(freed), CUDA_SUCCESS);
  const auto findings = Run(1, "reverse", 1, 128, freed, out, 0);
  EXPECT_THAT(findings, Contains(AllOf(Field(&Finding::kind, FindingKind::kOutOfBounds),
                                       Field(&Finding::message, HasSubstr("freed")))));
}

TEST_F(CheckersTest, BytesThatNobodyWrote) {
  Expect(FindingKind::kUninitialized, "unwritten", 1, 64, 1, out);
  Expect(FindingKind::kUninitialized, "unwritten", 1, 64, 2, out);
  const CUdeviceptr fresh = Allocate(4 * 128);
  EXPECT_THAT(Kinds(Run(1, "reverse", 1, 128, fresh, out, 0)), Each(FindingKind::kUninitialized));
  // And when the host copies them.
  std::vector<float> host(128);
  ASSERT_EQ(api.copy_to_host_async(host.data(), fresh, 512, nullptr), CUDA_SUCCESS);
  EXPECT_THAT(Kinds(TakeFindings()), Each(FindingKind::kUninitialized));
}

TEST_F(CheckersTest, RegistersThatNobodyWrote) {
  const std::string text =
      ".version 9.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .b32 %r<3>; add.u32 %r1, %r2, 1; ret; }\n";
  ASSERT_EQ(Launch(Function(Load(text), "k"), 1, 32, 0), CUDA_SUCCESS);
  const auto findings = TakeFindings();
  ASSERT_THAT(Kinds(findings), testing::ElementsAre(FindingKind::kUninitialized));
  EXPECT_THAT(findings[0].message, HasSubstr("%r2"));
}

TEST_F(CheckersTest, BarriersThatThreadsDoNotReach) {
  Expect(FindingKind::kDivergentBarrier, "barriers", 1, 64, 1, out);
  Expect(FindingKind::kDivergentBarrier, "barriers", 1, 64, 2, out);
}

TEST_F(CheckersTest, ThreadsMayLeaveEarlyWhereTheyHaveDoneNothing) {
  const std::string text = R"(.version 9.0
.target sm_80
.address_size 64
.entry k(.param .u32 count) { .reg .b32 %r<4>; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u32 %r2, [count]; setp.ge.u32 %p, %r1, %r2; @%p bra END; bar.sync 0; END: ret; })";
  ASSERT_EQ(Launch(Function(Load(text), "k"), 1, 128, 0, 50), CUDA_SUCCESS);
}

TEST_F(CheckersTest, ShufflesOfAbsentLanes) {
  Expect(FindingKind::kAbsentLanes, "shuffles", 1, 32, 1, out);
  Expect(FindingKind::kAbsentLanes, "shuffles", 1, 32, 2, out);
  EXPECT_THAT(Kinds(Run(1, "shuffles", 1, 32, out, 3)), Contains(FindingKind::kWrongMask));
}

TEST_F(CheckersTest, LanesOfAWarpNeedSyncwarp) { Expect(FindingKind::kSharedRace, "within_warp", 1, 32, 1, out); }

TEST_F(CheckersTest, AsyncCopiesNeedTheirWaitAndABarrier) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_THAT(Texts(Run(seed, "copies", 1, 32, in, out, 0)), IsEmpty());
    EXPECT_THAT(Kinds(Run(seed, "copies", 1, 32, in, out, 1)), Contains(FindingKind::kUnwaitedCopy));
  }
  EXPECT_THAT(Kinds(Run(1, "copies", 1, 32, in, out, 2)), Contains(FindingKind::kSharedRace));
}

TEST_F(CheckersTest, BlocksMayNotShareWhatTheyWrite) {
  base.check_global_races = true;
  Expect(FindingKind::kGlobalRace, "across_blocks", 4, 32, 1, out);
}

TEST_F(CheckersTest, AnEndlessLoopEnds) {
  base.most_instructions = 100'000;
  const std::string text = ".version 9.0\n.target sm_80\n.address_size 64\n.entry k() { L: bra.uni L; }\n";
  module = Load(text);
  EXPECT_THAT(Kinds(Run(1, "k", 1, 32)), testing::ElementsAre(FindingKind::kTooLong));
}

TEST_F(CheckersTest, ALaunchWithFindingsFailsUntilTheyAreTaken) {
  ASSERT_EQ(Launch(Function(module, "unwritten"), 1, 64, 0, out, 1), CUDA_SUCCESS);
  EXPECT_EQ(api.stream_synchronize(nullptr), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(api.set_bytes_async(out, 0, 4, nullptr), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(TakeFindings(), Not(IsEmpty()));
  EXPECT_EQ(api.stream_synchronize(nullptr), CUDA_SUCCESS);
}

}  // namespace
}  // namespace baton::ptx
