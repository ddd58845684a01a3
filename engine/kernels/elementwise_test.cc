#include <cmath>
#include <limits>

#include "engine/kernels/half.h"
#include "engine/kernels/trigonometry.h"
#include "engine/testing/every_table.h"

namespace baton::engine::kernels {
namespace {

class ElementwiseKernels : public EveryTable {};

INSTANTIATE_TEST_SUITE_P(Tables, ElementwiseKernels, AllTables(), TableName);

// Ordinary values, both zeros, denormals, the largest and the smallest.
std::vector<float> Mixed(RandomSource& random, size_t n, float limit) {
  const float odd[] = {0.0f, -0.0f, 1e-42f, -1e-39f, 3.4e38f, -3.4e38f, 1.2e-38f, 1e-31f, 2e-30f, 127.0f};
  std::vector<float> out = RandomFloats(random, n, limit);
  for (size_t i = 0; i < n; i += 1 + random.Below(40)) out[i] = odd[random.Below(std::size(odd))];
  return out;
}

TEST_P(ElementwiseKernels, ExpEqualsTheDefinition) {
  SeededRandom random(kSeed);
  std::vector<float> x = RandomFloats(random, 4096, 100.0f);
  const float edges[] = {0.0f,
                         -0.0f,
                         -87.0f,
                         -87.00001f,
                         88.0f,
                         200.0f,
                         -1e30f,
                         1e30f,
                         1e-40f,
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  std::copy(std::begin(edges), std::end(edges), x.begin());
  std::vector<float> got(x.size()), want(x.size());
  table().exp(x.data(), 4096, got.data());
  kScalarKernels.exp(x.data(), 4096, want.data());
  EXPECT_EQ(FirstDifference(got, want), -1);
  for (size_t i = std::size(edges); i < x.size(); ++i) {
    const double exact = std::exp(std::min(static_cast<double>(x[i]), 88.0));
    EXPECT_NEAR(got[i], x[i] < -87.0f ? 0.0 : exact, exact * 3e-7) << x[i];
  }
}

TEST_P(ElementwiseKernels, NormActivationsAddAndRopeEqualTheDefinition) {
  SeededRandom random(kSeed);
  for (const int n : {16, 32, 48, 576, 1536}) {
    const std::vector<float> x = RandomFloats(random, static_cast<size_t>(n), 3.0f);
    const std::vector<float> w = RandomFloats(random, static_cast<size_t>(n), 2.0f);
    std::vector<float> got(x.size()), want(x.size());
    table().rms_norm(x.data(), w.data(), n, 1e-5f, got.data());
    kScalarKernels.rms_norm(x.data(), w.data(), n, 1e-5f, want.data());
    EXPECT_EQ(FirstDifference(got, want), -1) << "rms_norm " << n;
    table().swiglu(x.data(), w.data(), n, got.data());
    kScalarKernels.swiglu(x.data(), w.data(), n, want.data());
    EXPECT_EQ(FirstDifference(got, want), -1) << "swiglu " << n;
    table().geglu(x.data(), w.data(), n, got.data());
    kScalarKernels.geglu(x.data(), w.data(), n, want.data());
    EXPECT_EQ(FirstDifference(got, want), -1) << "geglu " << n;
    got = want = w;
    table().add(got.data(), kLanes, x.data(), n / kLanes);
    kScalarKernels.add(want.data(), kLanes, x.data(), n / kLanes);
    EXPECT_EQ(FirstDifference(got, want), -1) << "add " << n;
    table().add(got.data(), 2 * kLanes, x.data(), n / kLanes / 2);
    kScalarKernels.add(want.data(), 2 * kLanes, x.data(), n / kLanes / 2);
    EXPECT_EQ(FirstDifference(got, want), -1) << "add, rows apart " << n;
    const std::vector<float> sine = RandomFloats(random, static_cast<size_t>(n), 1.0f);
    for (const size_t stride : {size_t{0}, size_t{kLanes}}) {
      got = want = x;
      table().rope(w.data(), sine.data(), stride, got.data(), n / kLanes);
      kScalarKernels.rope(w.data(), sine.data(), stride, want.data(), n / kLanes);
      EXPECT_EQ(FirstDifference(got, want), -1) << "rope " << n << ", stride " << stride;
    }
  }
}

TEST_P(ElementwiseKernels, NormAndSwigluAreWhatTheirNamesSay) {
  SeededRandom random(kSeed);
  const std::vector<float> x = RandomFloats(random, 64, 3.0f);
  const std::vector<float> w = RandomFloats(random, 64, 2.0f);
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * v;
  std::vector<float> got(64);
  table().rms_norm(x.data(), w.data(), 64, 1e-5f, got.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(got[i], x[i] / std::sqrt(squares / 64 + 1e-5) * w[i], 1e-6);
  table().swiglu(x.data(), w.data(), 64, got.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(got[i], x[i] / (1 + std::exp(-static_cast<double>(x[i]))) * w[i], 2e-6);
}

TEST_P(ElementwiseKernels, GegluIsGeluByTanh) {
  SeededRandom random(kSeed);
  std::vector<float> x = RandomFloats(random, 256, 8.0f);
  const float edges[] = {0.0f, -0.0f, 1e-30f, 30.0f, -30.0f, 1e6f, -1e6f, 1e30f, -1e30f};
  std::copy(std::begin(edges), std::end(edges), x.begin());
  const std::vector<float> up(x.size(), 1.0f);
  std::vector<float> got(x.size());
  table().geglu(x.data(), up.data(), 256, got.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double want = 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    EXPECT_NEAR(got[i], want, 1e-6 * std::abs(want) + 1e-6) << v;
  }
}

TEST_P(ElementwiseKernels, Bf16RoundsToNearestEvenAsTheDefinition) {
  SeededRandom random(kSeed);
  std::vector<float> x = Mixed(random, 4096, 100.0f);
  x[0] = BitsToFloat(0x3f808000);  // a tie down to even
  x[1] = BitsToFloat(0x3f818000);  // a tie up to even
  std::vector<uint16_t> got(x.size());
  table().to_bf16(x.data(), static_cast<int>(x.size()), got.data());
  EXPECT_EQ(got[0], 0x3f80);
  EXPECT_EQ(got[1], 0x3f82);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], FloatToBf16(x[i])) << x[i];
}

TEST_P(ElementwiseKernels, QuantizeEqualsTheDefinitionInEverySlot) {
  SeededRandom random(kSeed);
  constexpr int kGroups = 48;
  std::vector<QuantGroup> got(kGroups), want(kGroups);
  std::memset(got.data(), 0x5a, sizeof(QuantGroup) * kGroups);
  std::memset(want.data(), 0x5a, sizeof(QuantGroup) * kGroups);
  for (int slot = 0; slot < kLanes; ++slot) {
    std::vector<float> x = Mixed(random, kGroups * kGroup, slot % 2 == 0 ? 4.0f : 1e-3f);
    std::fill(x.begin(), x.begin() + kGroup, 0.0f);
    std::fill(x.begin() + kGroup, x.begin() + 2 * kGroup, 1e-31f);
    x[2 * kGroup] = std::numeric_limits<float>::infinity();
    x[3 * kGroup] = std::numeric_limits<float>::quiet_NaN();
    table().quantize(x.data(), kGroups, got.data(), slot);
    kScalarKernels.quantize(x.data(), kGroups, want.data(), slot);
  }
  EXPECT_EQ(std::memcmp(got.data(), want.data(), sizeof(QuantGroup) * kGroups), 0);
}

TEST_P(ElementwiseKernels, ATileIsQuantizedAsItsRowsAre) {
  SeededRandom random(kSeed);
  for (const int rows : {1, 3, 16}) {
    std::vector<float> first = Mixed(random, rows * kLanes, 4.0f);
    std::vector<float> last = Mixed(random, rows * kLanes, 4.0f);
    std::fill_n(first.end() - kLanes, kLanes, 0.0f);
    std::fill_n(last.end() - kLanes, kLanes, 1e-31f);
    first[1] = std::numeric_limits<float>::quiet_NaN();
    QuantGroup got, want;
    std::memset(&got, 0x5a, sizeof(got));
    std::memset(&want, 0x5a, sizeof(want));
    table().quantize_tile(first.data(), last.data(), rows, got);
    for (int r = 0; r < rows; ++r) {
      float row[kGroup];
      std::copy_n(first.data() + r * kLanes, kLanes, row);
      std::copy_n(last.data() + r * kLanes, kLanes, row + kLanes);
      kScalarKernels.quantize(row, 1, &want, r);
    }
    EXPECT_EQ(std::memcmp(&got, &want, sizeof(got)), 0) << rows;
  }
}

TEST_P(ElementwiseKernels, QuantizedValuesAreWithinHalfAStepAndTiesGoToEven) {
  SeededRandom random(kSeed);
  std::vector<float> x = RandomFloats(random, kGroup, 5.0f);
  QuantGroup group;
  table().quantize(x.data(), 1, &group, 3);
  int sum = 0, first_half = 0;
  for (int i = 0; i < kGroup; ++i) {
    EXPECT_NEAR(group.scale[3] * group.q[3][i], x[static_cast<size_t>(i)], group.scale[3] * 0.501f);
    sum += group.q[3][i];
    if (i < kGroup / 2) first_half += group.q[3][i];
  }
  EXPECT_EQ(group.neg8_sum[3], -8 * sum);
  EXPECT_EQ(group.neg8_halves[3][0], -8 * first_half);
  EXPECT_EQ(group.neg8_halves[3][1], -8 * (sum - first_half));
  EXPECT_EQ(group.scaled_sum[3], group.scale[3] * static_cast<float>(sum));
  // With a maximum of 127 the quotients are the values themselves.
  x.assign(kGroup, 2.5f);
  x[0] = 127.0f;
  x[1] = -3.5f;
  x[2] = -127.0f;
  table().quantize(x.data(), 1, &group, 0);
  EXPECT_EQ(group.q[0][0], 127);
  EXPECT_EQ(group.q[0][1], -4);
  EXPECT_EQ(group.q[0][2], -127);
  EXPECT_EQ(group.q[0][3], 2);
}

TEST_P(ElementwiseKernels, AHeadIsQuantizedAsAGroupIsButWithOneScale) {
  SeededRandom random(kSeed);
  for (const int n : {32, 64, 96, 256}) {
    for (const int kind : {0, 1, 2, 3, 4}) {
      const size_t size = static_cast<size_t>(n);
      std::vector<float> x = kind == 1 ? std::vector<float>(size, 1e-31f) : Mixed(random, n, 4.0f);
      if (kind == 2) x[size - 1] = std::numeric_limits<float>::infinity();
      if (kind == 3) x[size / 2] = std::numeric_limits<float>::quiet_NaN();
      std::vector<int8_t> got(size), want(size);
      float got_scale = -1, want_scale = -1;
      table().quantize_head(x.data(), n, got.data(), &got_scale);
      kScalarKernels.quantize_head(x.data(), n, want.data(), &want_scale);
      EXPECT_EQ(got, want) << n << " kind " << kind;
      EXPECT_EQ(FirstDifference(&got_scale, &want_scale, 1), -1) << n << " kind " << kind;
    }
    // A head of one group is that group; longer ones have the scale of their largest group.
    const std::vector<float> x = RandomFloats(random, static_cast<size_t>(n), 5.0f);
    std::vector<QuantGroup> groups(static_cast<size_t>(n / kGroup));
    table().quantize(x.data(), n / kGroup, groups.data(), 0);
    std::vector<int8_t> q(x.size());
    float scale = 0, largest = 0;
    table().quantize_head(x.data(), n, q.data(), &scale);
    for (const QuantGroup& group : groups) largest = std::max(largest, group.scale[0]);
    EXPECT_EQ(scale, largest);
    if (n == kGroup) {
      EXPECT_EQ(std::memcmp(q.data(), groups.front().q[0], kGroup), 0);
    }
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(scale * q[i], x[i], scale * 0.501f);
  }
}

TEST(Half, EveryHalfConvertsAsTheHardwareDoes) {
  FpStateGuard fp_state;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t exponent = (bits >> 10) & 31;
    const uint32_t mantissa = bits & 1023;
    const double size =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
    const float got = HalfToFloat(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_TRUE(mantissa == 0 ? std::isinf(got) : std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(FloatToBits(got), FloatToBits(static_cast<float>(bits >> 15 ? -size : size))) << bits;
    }
  }
}

TEST(Trigonometry, AgreesWithTheStandardLibrary) {
  SeededRandom random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const double x = static_cast<double>(random.Below(1u << 30)) / (i % 2 == 0 ? 1 << 10 : 1 << 28);
    const SinCos got = SineCosine(x);
    EXPECT_NEAR(got.sine, std::sin(x), 1e-14) << x;
    EXPECT_NEAR(got.cosine, std::cos(x), 1e-14) << x;
  }
  for (const double base : {1.0, 10000.0, 100000.0, 500000.0, 1e6}) {
    for (int i = 0; i < 64; ++i) {
      const double want = std::pow(base, -i / 64.0);
      EXPECT_NEAR(InversePower(base, i / 64.0), want, want * 1e-14);
    }
  }
}

TEST(FpState, GuardSetsAndRestoresIt) {
  const volatile float tiny = 1e-38f;
  EXPECT_GT(tiny * 0.01f, 0.0f);
  {
    FpStateGuard guard;
    EXPECT_EQ(tiny * 0.01f, 0.0f);
  }
  EXPECT_GT(tiny * 0.01f, 0.0f);
}

}  // namespace
}  // namespace baton::engine::kernels
