// Divergence, operations of a warp, and matrices.
#include <bit>
#include <cmath>
#include <random>

#include "tests/ptx/number_formats.h"
#include "tests/ptx/test_device.h"

namespace baton::ptx {
namespace {

class WarpTest : public DeviceTest {
 protected:
  // One input for each lane of one warp.
  std::vector<uint64_t> OneWarp(const std::string& body, const std::string& result) {
    std::vector<std::array<uint64_t, 3>> inputs;
    for (uint64_t lane = 0; lane < 32; ++lane) inputs.push_back({lane, lane * lane % 7, 100 + lane});
    // 256 threads are launched, of which the first 32 stay.
    return Lanes(body, result, inputs);
  }
  CUmodule Sound() {
    const std::string text = KernelText("sound");
    return text.empty() ? nullptr : Load(text);
  }
};

#define SKIP_WITHOUT_NVCC(module) \
  if ((module) == nullptr) GTEST_SKIP() << "nvcc was not there"

TEST_F(WarpTest, ShufflesOfAllModesAndWidths) {
  for (const uint32_t width : {32U, 16U, 8U}) {
    const uint32_t segment = (32 - width) << 8;
    for (const uint32_t by : {0U, 1U, 3U, 8U, 17U}) {
      const std::string rest = ", " + std::to_string(by) + ", " + std::to_string(segment | 31) + ", -1;";
      const std::string up_rest = ", " + std::to_string(by) + ", " + std::to_string(segment) + ", -1;";
      const auto down = OneWarp("shfl.sync.down.b32 %o32, %c32" + rest, "%o32");
      const auto bfly = OneWarp("shfl.sync.bfly.b32 %o32, %c32" + rest, "%o32");
      const auto idx = OneWarp("shfl.sync.idx.b32 %o32|%p1, %c32" + rest, "%o32");
      const auto up = OneWarp("shfl.sync.up.b32 %o32|%po, %c32" + up_rest, "%po");
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t first = lane / width * width;
        EXPECT_EQ(down[lane], 100 + (lane + by < first + width ? lane + by : lane)) << width << " " << by;
        EXPECT_EQ(bfly[lane], 100 + ((lane ^ by) < first + width ? lane ^ by : lane))
            << width << " " << by << " " << lane;
        EXPECT_EQ(idx[lane], 100 + first + by % width);
        EXPECT_EQ(up[lane], lane >= first + by ? 1U : 0U);
      }
    }
  }
}

TEST_F(WarpTest, VotesMatchesAndReductions) {
  uint32_t threes = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) threes |= uint32_t{lane * lane % 7 == 2} << lane;
  const auto ballot = OneWarp("setp.eq.u32 %p1, %b32, 2; vote.sync.ballot.b32 %o32, %p1, -1;", "%o32");
  const auto any = OneWarp("setp.eq.u32 %p1, %b32, 3; vote.sync.any.pred %po, %p1, -1;", "%po");
  const auto all = OneWarp("setp.lt.u32 %p1, %b32, 7; vote.sync.all.pred %po, !%p1, -1;", "%po");
  const auto match = OneWarp("match.any.sync.b32 %o32, %b32, -1;", "%o32");
  const auto sum = OneWarp("redux.sync.add.u32 %o32, %c32, -1;", "%o32");
  const auto least = OneWarp("neg.s32 %r3, %c32; redux.sync.min.s32 %o32, %r3, -1;", "%o32");
  const auto active = OneWarp("setp.lt.u32 %p1, %a32, 5; mov.u32 %o32, 0; @%p1 activemask.b32 %o32;", "%o32");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(ballot[lane], threes);
    EXPECT_EQ(any[lane], 0U);
    EXPECT_EQ(all[lane], 0U);
    EXPECT_TRUE((match[lane] >> lane & 1) != 0 && (lane * lane % 7 != 2 || match[lane] == threes));
    EXPECT_EQ(sum[lane], 32U * 100 + 31 * 16);
    EXPECT_EQ(least[lane], static_cast<uint32_t>(-131));
    EXPECT_EQ(active[lane], lane < 5 ? 31U : 0U);
  }
}

TEST_F(WarpTest, LanesOfOtherPathsMeetAgainAtAShuffle) {
  // Odd lanes take the long way; all meet, without a barrier, at the shuffle.
  const auto results = OneWarp(
      "mov.u32 %r3, 0; and.b32 %r4, %a32, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra EVEN;"
      "LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %a32; @%p2 bra LOOP; bra.uni JOIN;"
      "EVEN: mov.u32 %r3, 1000; JOIN: shfl.sync.bfly.b32 %o32, %r3, 1, 31, -1;",
      "%o32");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(results[lane], lane % 2 == 1 ? 1000 : lane + 1);
}

TEST_F(WarpTest, ALaneMaySpinForAnother) {
  const CUmodule module = Load(R"(.version 9.0
.target sm_80
.address_size 64
.entry k(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .pred %p<3>; .shared .u32 flag;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out];
  setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, 0; @!%p1 st.volatile.shared.u32 [flag], %r2;
  bar.warp.sync -1;
  setp.eq.u32 %p1, %r1, 31; @%p1 bra SET;
WAIT: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT; bra.uni DONE;
SET: st.volatile.shared.u32 [flag], 5;
DONE: mad.wide.u32 %rd1, %r1, 4, %rd1; ld.volatile.shared.u32 %r2, [flag]; st.global.u32 [%rd1], %r2;
})");
  const CUdeviceptr out = Allocate(128);
  ASSERT_EQ(Launch(Function(module, "k"), 1, 32, 0, out), CUDA_SUCCESS);
  EXPECT_THAT(ToHost<uint32_t>(out, 32), testing::Each(5U));
}

TEST_F(WarpTest, CallsLoopsAndSwitchesOfCompiledKernels) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  const CUdeviceptr out = Allocate(4 * 256);
  ASSERT_EQ(Launch(Function(module, "collatz"), 2, 96, 0, out, 1000), CUDA_SUCCESS);
  const auto steps = ToHost<int>(out, 192);
  for (int i = 0; i < 192; ++i) {
    int expected = 0;
    for (int value = i + 1; value != 1; ++expected) value = value % 2 == 0 ? value / 2 : 3 * value + 1;
    EXPECT_EQ(steps[i], i % 3 == 0 ? -1 : expected) << i;
  }
  ASSERT_EQ(Launch(Function(module, "switches"), 1, 64, 0, out), CUDA_SUCCESS);
  const auto values = ToHost<int>(out, 64);
  for (int i = 0; i < 64; ++i) {
    const int expected[] = {5, i * 7, i ^ 77, i / 3, -i, i * i, i << 3, 9, 9};
    EXPECT_EQ(values[i], expected[i % 9]) << i;
  }
}

TEST_F(WarpTest, BlockSumsAreTheSameForEverySeedAndNumberOfThreads) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(i) * 0.25F);
  const CUdeviceptr in = ToDevice(values);
  const CUdeviceptr out = Allocate(4);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Options options;
    options.seed = seed;
    options.host_threads = seed % 2 == 0 ? 1 : 2;
    SetOptions(options);
    ASSERT_EQ(Launch(Function(module, "block_sum"), 1, 256, 0, in, out, 1000), CUDA_SUCCESS);
    EXPECT_EQ(ToHost<float>(out, 1)[0], 0.25F * 999 * 500);
  }
}

TEST_F(WarpTest, SlowPathsOfTheMathLibraryAgreeWithTheHost) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(std::ldexp(1.37F, i - 20));
  const CUdeviceptr in = ToDevice(values);
  const CUdeviceptr out = Allocate(256);
  ASSERT_EQ(Launch(Function(module, "sines"), 1, 64, 0, in, out), CUDA_SUCCESS);
  const auto results = ToHost<float>(out, 64);
  for (int i = 0; i < 40; ++i) {
    EXPECT_NEAR(results[i], std::sin(double{values[i]}) + std::exp(double{values[i]} * 1e-6), 4e-6) << values[i];
  }
}

TEST_F(WarpTest, DoublesOfTheMathLibraryAgreeWithTheHost) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  std::vector<double> values;
  for (int i = 0; i < 64; ++i) values.push_back(std::ldexp(1.37 + i * 0.01, i / 2 - 12));
  const CUdeviceptr in = ToDevice(values);
  const CUdeviceptr out = Allocate(64 * 48);
  ASSERT_EQ(Launch(Function(module, "doubles"), 1, 64, 0, in, out), CUDA_SUCCESS);
  const auto results = ToHost<double>(out, 64 * 6);
  for (int i = 0; i < 64; ++i) {
    const double x = values[i];
    const double expected[] = {
        std::sin(x),
        std::pow(x, 1.7),
        std::log(x),
        std::exp(-x),
        x / 3 + 1 / std::sqrt(x) + std::cbrt(x),
        static_cast<double>(static_cast<uint64_t>(x * 1e9) / static_cast<uint64_t>(i + 3) % 1000003)};
    for (int e = 0; e < 6; ++e)
      EXPECT_NEAR(results[6 * i + e], expected[e], std::abs(expected[e]) * 1e-15) << x << " " << e;
  }
}

TEST_F(WarpTest, LdmatrixAndMmaGiveTheProductOfAsymmetricMatrices) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  std::vector<uint16_t> a;
  std::vector<uint16_t> b;
  for (int i = 0; i < 256; ++i) a.push_back(ToBf16((i * 7 % 31 - 11) * 0.125).bits);
  for (int i = 0; i < 128; ++i) b.push_back(ToBf16(i * 5 % 23 - 9.5).bits);
  const CUdeviceptr out = Allocate(512);
  ASSERT_EQ(Launch(Function(module, "tile_product"), 1, 32, 0, ToDevice(a), ToDevice(b), out), CUDA_SUCCESS);
  const auto d = ToHost<float>(out, 128);
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum = std::fma(ToFloat(Bf16{a[row * 16 + k]}), ToFloat(Bf16{b[k * 8 + n]}), sum);
      EXPECT_EQ(d[row * 8 + n], sum) << row << " " << n;
    }
  }
}

// Fragments by the ISA's formulas, written anew: for A of type s8, row = group + 8 (i in 4..7 or from 12), k = 4 t + i
// % 4
// + 16 (i from 8).
TEST_F(WarpTest, MmaOfBytesFollowsTheFragmentsOfTheIsa) {
  std::mt19937 random(2);
  int8_t a[16][32];
  int8_t b[32][8];
  for (auto& row : a) {
    for (auto& x : row) x = static_cast<int8_t>(random());
  }
  for (auto& row : b) {
    for (auto& x : row) x = static_cast<int8_t>(random());
  }
  std::vector<uint32_t> words(32 * 6);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 16; ++i) {
      const int row = lane / 4 + (i / 4 % 2 == 1 ? 8 : 0);
      const int k = lane % 4 * 4 + i % 4 + (i >= 8 ? 16 : 0);
      words[lane * 6 + i / 4] |= uint32_t{static_cast<uint8_t>(a[row][k])} << i % 4 * 8;
    }
    for (int i = 0; i < 8; ++i) {
      const int k = lane % 4 * 4 + i % 4 + (i >= 4 ? 16 : 0);
      words[lane * 6 + 4 + i / 4] |= uint32_t{static_cast<uint8_t>(b[k][lane / 4])} << i % 4 * 8;
    }
  }
  const CUmodule module = Load(R"(.version 9.0
.target sm_80
.address_size 64
.entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<16>;
  mov.u32 %r15, %tid.x; ld.param.u64 %rd1, [in]; mad.wide.u32 %rd1, %r15, 24, %rd1;
  ld.global.v2.u32 {%r0, %r1}, [%rd1]; ld.global.v2.u32 {%r2, %r3}, [%rd1+8]; ld.global.v2.u32 {%r4, %r5}, [%rd1+16];
  mov.u32 %r6, %r15; mov.u32 %r7, 0; mov.u32 %r8, 0; mov.u32 %r9, -3;
  mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r6, %r7, %r8, %r9}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7, %r8, %r9};
  ld.param.u64 %rd2, [out]; mad.wide.u32 %rd2, %r15, 16, %rd2; st.global.v4.u32 [%rd2], {%r6, %r7, %r8, %r9};
})");
  const CUdeviceptr out = Allocate(512);
  ASSERT_EQ(Launch(Function(module, "k"), 1, 32, 0, ToDevice(words), out), CUDA_SUCCESS);
  const auto d = ToHost<int32_t>(out, 128);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      int32_t sum = i == 0 ? lane : i == 3 ? -3 : 0;
      for (int k = 0; k < 32; ++k) sum += a[lane / 4 + (i >= 2 ? 8 : 0)][k] * b[k][lane % 4 * 2 + i % 2];
      EXPECT_EQ(d[lane * 4 + i], sum) << lane << " " << i;
    }
  }
}

// Fragments of m16n8k8 by the ISA: a register of A or B holds `width` neighbours in k, row g + 8 for odd registers of
// A.
TEST_F(WarpTest, MmaOfF16AndTf32FollowsTheFragmentsOfTheIsa) {
  for (const bool tf32 : {false, true}) {
    const int width = tf32 ? 1 : 2;
    float a[16][8];
    float b[8][8];
    for (int i = 0; i < 128; ++i) a[i / 8][i % 8] = static_cast<float>(i * 3 % 17) - 4.5F;
    for (int i = 0; i < 64; ++i) b[i / 8][i % 8] = static_cast<float>(i * 11 % 29) * 0.25F;
    const int a_words = tf32 ? 4 : 2;
    const int b_words = tf32 ? 2 : 1;
    std::vector<uint32_t> words(32 * 6);
    auto put = [&](uint32_t& word, int e, float value) {
      // Bits that tf32 has not are ignored.
      word |= tf32 ? std::bit_cast<uint32_t>(value) | 0xfff : uint32_t{ToF16(value).bits} << 16 * e;
    };
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < a_words * width; ++i) {
        const int word = i / width;
        put(words[lane * 6 + word], i % width, a[lane / 4 + word % 2 * 8][lane % 4 * width + i % width + word / 2 * 4]);
      }
      for (int i = 0; i < b_words * width; ++i) {
        const int word = i / width;
        put(words[lane * 6 + 4 + word], i % width, b[lane % 4 * width + i % width + word * 4][lane / 4]);
      }
    }
    const std::string type = tf32 ? "tf32" : "f16";
    const std::string fragments = tf32 ? "{%r0, %r1, %r2, %r3}, {%r4, %r5}" : "{%r0, %r1}, {%r4}";
    const CUmodule module = Load(R"(.version 9.0
.target sm_80
.address_size 64
.entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<16>; .reg .f32 %f<4>;
  mov.u32 %r15, %tid.x; ld.param.u64 %rd1, [in]; mad.wide.u32 %rd1, %r15, 24, %rd1;
  ld.global.v2.u32 {%r0, %r1}, [%rd1]; ld.global.v2.u32 {%r2, %r3}, [%rd1+8]; ld.global.v2.u32 {%r4, %r5}, [%rd1+16];
  mma.sync.aligned.m16n8k8.row.col.f32.)" +
                                 type + "." + type + ".f32 {%f0, %f1, %f2, %f3}, " + fragments +
                                 R"(, {0f3F800000, 0f00000000, 0f00000000, 0f40000000};
  ld.param.u64 %rd2, [out]; mad.wide.u32 %rd2, %r15, 16, %rd2; st.global.v4.f32 [%rd2], {%f0, %f1, %f2, %f3};
})");
    const CUdeviceptr out = Allocate(512);
    ASSERT_EQ(Launch(Function(module, "k"), 1, 32, 0, ToDevice(words), out), CUDA_SUCCESS);
    const auto d = ToHost<float>(out, 128);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        float sum = i == 0 ? 1.0F : i == 3 ? 2.0F : 0.0F;
        for (int k = 0; k < 8; ++k) sum = std::fma(a[lane / 4 + (i >= 2 ? 8 : 0)][k], b[k][lane % 4 * 2 + i % 2], sum);
        EXPECT_EQ(d[lane * 4 + i], sum) << type << " " << lane << " " << i;
      }
    }
  }
}

TEST_F(WarpTest, AtomicsAndReducingBarriersCount) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  std::vector<int> values;
  std::vector<int> expected(16);
  expected[8] = -1000000;
  expected[9] = 1000000;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(i * 7919 % 10007 - 5000);
    ++expected[values[i] & 7];
    expected[8] = std::max(expected[8], values[i]);
    expected[9] = std::min(expected[9], values[i]);
    expected[10] ^= values[i];
  }
  expected[11] = 7;
  expected[12] = 3;
  expected[13] = std::bit_cast<int>(2.0F);
  expected[14] = 32;
  std::vector<int> start(16);
  start[8] = -1000000;
  start[9] = 1000000;
  const CUdeviceptr in = ToDevice(values);
  for (int threads = 1; threads <= 3; ++threads) {
    Options options;
    options.host_threads = threads;
    SetOptions(options);
    const CUdeviceptr out = ToDevice(start);
    ASSERT_EQ(Launch(Function(module, "histogram"), 5, 96, 0, in, out, 3000), CUDA_SUCCESS);
    EXPECT_EQ(ToHost<int>(out, 16), expected);
  }
}

TEST_F(WarpTest, NamedBarriersOrderProducersAndConsumers) {
  const CUmodule module = Sound();
  SKIP_WITHOUT_NVCC(module);
  std::vector<int> values;
  for (int i = 0; i < 192; ++i) values.push_back(i * i);
  const CUdeviceptr in = ToDevice(values);
  const CUdeviceptr out = Allocate(4 * 192);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Options options;
    options.seed = seed;
    SetOptions(options);
    ASSERT_EQ(Launch(Function(module, "producer"), 1, 64, 0, in, out), CUDA_SUCCESS);
    const auto results = ToHost<int>(out, 192);
    for (int i = 0; i < 192; ++i) ASSERT_EQ(results[i], values[i / 32 * 32 + 31 - i % 32]);
  }
}

TEST_F(WarpTest, ABranchByTableTakesEachLaneToItsLabel) {
  const auto results = OneWarp(
      "and.b32 %r3, %a32, 3; brx.idx %r3, TABLE; TABLE: .branchtargets A, B, C, B;"
      "A: mov.u32 %o32, 10; bra.uni END; B: mov.u32 %o32, 20; bra.uni END; C: mov.u32 %o32, 30; END:",
      "%o32");
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(results[lane], lane % 4 == 0 ? 10U : lane % 4 == 2 ? 30U : 20U);
}

}  // namespace
}  // namespace baton::ptx
