#include <algorithm>
#include <limits>

#include "absl/types/span.h"
#include "engine/cuda/kernels/testing/kernel_device.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "engine/kernels/dispatch.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kElementwiseSeed = 1618;
constexpr double kNormUlps = 8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(CudaEmbed, GivesTheRowsOfTokensTimesTheScale) {
  SeededRandom random(kElementwiseSeed);
  for (const WeightKind& kind : kWeightKinds) {
    for (const int k : {32, 96, 1280, 1600}) {
      const HostMatrix matrix = RandomMatrix(kind, 48, k, false, random);
      const std::vector<int32_t> tokens = {47, 0, 13, 13, 46, 2, 30};
      // The last three are what a step before has chosen, in another order.
      const std::vector<int32_t> chosen = {2, 46, 30};
      const std::vector<int32_t> given = {47, 0, 13, 13, ~1, ~0, ~2};
      const DeviceMatrix embedding(matrix);
      const DeviceArray<float> out(tokens.size() * static_cast<size_t>(k));
      const DeviceArray<int32_t> device_tokens(given), device_chosen(chosen);
      const EmbedParams params{embedding.get(), device_tokens.get(), device_chosen.get(), out.get(), 1.7f};
      KernelDevice::Get().Run("embed", params, EmbedLaunch(static_cast<int32_t>(tokens.size())));
      std::vector<float> want;
      for (const int32_t token : tokens) {
        for (int i = 0; i < k; ++i) want.push_back(matrix.At(token, i) * 1.7f);
      }
      EXPECT_EQ(FirstDifference(out.Values(), want), -1)
          << "format " << static_cast<int>(kind.format) << " factors " << kind.has_factors << " k " << k;
    }
  }
}

struct NormCase {
  int width;
  bool has_branch;
  bool has_post_weight;
};

class Norm {
  const NormCase c_;

 public:
  Norm(const NormCase& c, int rows, RandomSource& random)
      : c_(c),
        residual(RandomFloats(random, static_cast<size_t>(rows * c.width), 3.0f)),
        branch(RandomFloats(random, static_cast<size_t>(rows * c.width), 2.0f)),
        post_weight(RandomFloats(random, static_cast<size_t>(c.width), 1.5f)),
        weight(RandomFloats(random, static_cast<size_t>(c.width), 1.5f)) {}

  std::vector<float> residual, branch, post_weight, weight;

  // What the kernel writes: the stream, and the output in f32 and in bf16.
  struct Outputs {
    std::vector<float> residual;
    std::vector<float> out_f32;
    std::vector<Bf16> out;
  };
  Outputs Run(const std::vector<int32_t>& source = {}) const {
    const size_t width = static_cast<size_t>(c_.width);
    const size_t rows = source.empty() ? residual.size() / width : source.size();
    const DeviceArray<float> device_residual(residual), device_branch(branch), device_post(post_weight),
        device_weight(weight), out_f32(rows * width);
    const DeviceArray<int32_t> device_source(source);
    const DeviceArray<Bf16> out(rows * width);
    AddNormParams params{.residual = device_residual.get(),
                         .branch = c_.has_branch ? device_branch.get() : nullptr,
                         .post_weight = c_.has_post_weight ? device_post.get() : nullptr,
                         .weight = device_weight.get(),
                         .source = source.empty() ? nullptr : device_source.get(),
                         .out = out.get(),
                         .out_f32 = out_f32.get(),
                         .width = c_.width,
                         .epsilon = 1e-5f};
    KernelDevice::Get().Run("add_norm", params, AddNormLaunch(static_cast<int32_t>(rows)));
    return {device_residual.Values(), out_f32.Values(), out.Values()};
  }

  // The definition of one row: the stream after it, and the output.
  void Define(int row, std::vector<float>& stream, std::vector<float>& out) const {
    const size_t width = static_cast<size_t>(c_.width);
    std::vector<float> x(residual.begin() + row * c_.width, residual.begin() + (row + 1) * c_.width);
    const float* const add = &branch[static_cast<size_t>(row) * width];
    const float post = c_.has_post_weight ? RootOfMean(add, c_.width, 128, 4, 1e-5f) : 0.0f;
    for (size_t i = 0; i < width && c_.has_branch; ++i) {
      x[i] = x[i] + (c_.has_post_weight ? add[i] * post * post_weight[i] : add[i]);
    }
    const float root = RootOfMean(x.data(), c_.width, 128, 4, 1e-5f);
    stream.insert(stream.end(), x.begin(), x.end());
    for (size_t i = 0; i < width; ++i) out.push_back(x[i] * root * weight[i]);
  }
};

TEST(CudaAddNorm, EqualsItsDefinitionBitForBit) {
  SeededRandom random(kElementwiseSeed);
  for (const NormCase& c : {NormCase{32, false, false},
                            {96, true, false},
                            {512, true, true},
                            {544, true, true},
                            {1600, true, false},
                            {2048, false, false}}) {
    // With so many rows, a sum in another order differs in some of them.
    const int rows = 64;
    const Norm norm(c, rows, random);
    std::vector<float> stream, want;
    for (int row = 0; row < rows; ++row) norm.Define(row, stream, want);
    const Norm::Outputs got = norm.Run();
    EXPECT_EQ(FirstDifference(got.residual, stream), -1) << "width " << c.width;
    EXPECT_EQ(FirstDifference(got.out_f32, want), -1) << "width " << c.width;
    EXPECT_EQ(FirstDifference(got.out, ToBf16(want)), -1) << "width " << c.width;
  }
}

TEST(CudaAddNorm, TakesRowsByTheirSource) {
  SeededRandom random(kElementwiseSeed);
  const Norm norm({160, false, false}, 5, random);
  std::vector<float> stream, want;
  for (const int row : {4, 0, 4}) norm.Define(row, stream, want);
  const Norm::Outputs got = norm.Run({4, 0, 4});
  EXPECT_EQ(FirstDifference(got.out_f32, want), -1);
  EXPECT_EQ(FirstDifference(got.residual, norm.residual), -1);
}

// A row as the CPU's operators compute it, and the magnitudes of what they add and scale.
struct CpuRow {
  CpuRow(const Norm& norm, const NormCase& c, int row)
      : stream(norm.residual.begin() + row * c.width, norm.residual.begin() + (row + 1) * c.width), out(stream.size()) {
    std::vector<float> add(norm.branch.begin() + row * c.width, norm.branch.begin() + (row + 1) * c.width);
    if (c.has_post_weight) {
      kernels::kScalarKernels.rms_norm(add.data(), norm.post_weight.data(), c.width, 1e-5f, add.data());
    }
    double squares = 0;
    for (size_t i = 0; i < stream.size(); ++i) {
      stream_magnitudes.push_back(std::abs(stream[i]) + (c.has_branch ? std::abs(add[i]) : 0.0f));
    }
    if (c.has_branch)
      kernels::kScalarKernels.add(stream.data(), kernels::kLanes, add.data(), c.width / kernels::kLanes);
    for (const double x : stream) squares += x * x;
    for (size_t i = 0; i < stream.size(); ++i) {
      out_magnitudes.push_back(stream_magnitudes[i] * std::abs(norm.weight[i]) / std::sqrt(squares / c.width + 1e-5));
    }
    kernels::kScalarKernels.rms_norm(stream.data(), norm.weight.data(), c.width, 1e-5f, out.data());
  }

  std::vector<float> stream, out;
  std::vector<double> stream_magnitudes, out_magnitudes;
};

// The largest distance in ulps of float of the magnitudes; of what is equal, not a number or zero it is 0.
double MostUlps(const float* got, const std::vector<float>& want, const std::vector<double>& magnitudes) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double ulps = InUlps(static_cast<double>(got[i]) - want[i], magnitudes[i], kFloatBits);
    most = std::isnan(ulps) ? kInfinity : std::max(most, ulps);
  }
  return most;
}

TEST(CudaAddNorm, IsNearTheCpu) {
  const kernels::FpStateGuard fp_state;
  SeededRandom random(kElementwiseSeed);
  for (const NormCase& c : {NormCase{32, false, false},
                            {96, true, false},
                            {544, true, true},
                            {1600, false, false},
                            {1600, true, true},
                            {4096, true, false},
                            {4096, true, true}}) {
    constexpr int kRows = 6;
    Norm norm(c, kRows, random);
    const size_t width = static_cast<size_t>(c.width);
    const auto row = [width](std::vector<float>& values, size_t i) {
      return absl::MakeSpan(values).subspan(i * width, width);
    };
    // Rows of zeros, of numbers whose squares are beyond f32, and of such as are far below epsilon; a NaN; a branch
    // that cancels the stream but for its last bits.
    for (float& x : row(norm.residual, 1)) x = 0.0f;
    for (float& x : row(norm.branch, 1)) x = -0.0f;
    row(norm.residual, 2)[width - 1] = 3e38f;
    for (float& x : row(norm.residual, 3)) x *= 1e-15f;
    for (float& x : row(norm.branch, 3)) x *= 1e-15f;
    row(norm.residual, 4)[7] = kNan;
    for (size_t i = 0; i < width; ++i) row(norm.branch, 5)[i] = -row(norm.residual, 5)[i] * 1.0001f;
    const Norm::Outputs got = norm.Run();
    for (int i = 0; i < kRows; ++i) {
      const CpuRow want(norm, c, i);
      const size_t first = static_cast<size_t>(i) * width;
      // What has no norm of its own is added as on the CPU.
      EXPECT_LE(MostUlps(&got.residual[first], want.stream, want.stream_magnitudes), c.has_post_weight ? kNormUlps : 0)
          << "width " << c.width << " row " << i;
      // The sums of squares differ in their order.
      EXPECT_LE(MostUlps(&got.out_f32[first], want.out, want.out_magnitudes), kNormUlps)
          << "width " << c.width << " branch " << c.has_branch << " post " << c.has_post_weight << " row " << i;
    }
  }
}

TEST(CudaAddNorm, ANanStaysInItsRow) {
  SeededRandom random(kElementwiseSeed);
  Norm norm({64, false, false}, 3, random);
  norm.residual[64 + 63] = kNan;
  const std::vector<float> got = norm.Run().out_f32;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / 64 == 1) << i;
}

// Runs the kernel on rows of gates and ups.
std::vector<Bf16> RunActivate(const std::vector<float>& gate_up, int rows, bool gelu) {
  const DeviceArray<float> in(gate_up);
  const DeviceArray<Bf16> out(gate_up.size() / 2);
  const int32_t ffn = static_cast<int32_t>(gate_up.size()) / rows / 2;
  KernelDevice::Get().Run("activate", ActivateParams{in.get(), out.get(), ffn, gelu}, ActivateLaunch(rows, ffn));
  return out.Values();
}

TEST(CudaActivate, IsWithinAnUlpOfTheCpu) {
  const kernels::FpStateGuard fp_state;
  SeededRandom random(kElementwiseSeed);
  for (const bool gelu : {false, true}) {
    for (const int ffn : {32, 288, 544}) {
      const std::vector<float> in = RandomFloats(random, static_cast<size_t>(3 * 2 * ffn), 8.0f);
      const std::vector<Bf16> got = RunActivate(in, 3, gelu);
      for (int row = 0; row < 3; ++row) {
        const float* const gate = &in[static_cast<size_t>(row * 2 * ffn)];
        std::vector<float> want(static_cast<size_t>(ffn));
        (gelu ? kernels::kScalarKernels.geglu : kernels::kScalarKernels.swiglu)(gate, gate + ffn, ffn, want.data());
        for (int i = 0; i < ffn; ++i) {
          EXPECT_LE(Bf16Distance(got[static_cast<size_t>(row * ffn + i)], ToBf16(want[static_cast<size_t>(i)])), 1)
              << "gelu " << gelu << " row " << row << " at " << i;
        }
      }
    }
  }
}

TEST(CudaActivate, ExtremeGatesAreThoseOfTheCpu) {
  const kernels::FpStateGuard fp_state;
  const std::vector<float> gates = {0.0f, -0.0f, 100.0f, -100.0f, 3e38f, -3e38f, kInfinity, -kInfinity, kNan, 1e-30f};
  for (const bool gelu : {false, true}) {
    std::vector<float> in(64, 1.0f);
    std::copy(gates.begin(), gates.end(), in.begin());
    std::vector<float> want(32);
    (gelu ? kernels::kScalarKernels.geglu : kernels::kScalarKernels.swiglu)(in.data(), &in[32], 32, want.data());
    const std::vector<Bf16> got = RunActivate(in, 1, gelu);
    for (size_t i = 0; i < gates.size(); ++i) {
      EXPECT_TRUE(Bf16Distance(got[i], ToBf16(want[i])) <= 1 || std::abs(ToFloat(got[i]) - want[i]) < 1e-30f)
          << "gelu " << gelu << " of " << gates[i] << ": " << ToFloat(got[i]) << " and " << want[i];
    }
  }
}

TEST(CudaZeroRows, ZeroesTheRowsAndNoOthers) {
  constexpr int kLayers = 3, kKvHeads = 2, kHeadDim = 48;
  for (const int first_row : {0, 1, 15}) {
    std::vector<uint8_t> block(kLayers * 2 * kKvHeads * kPageTokens * kHeadDim * 2, 0xa5);
    const DeviceArray<uint8_t> device(block);
    KernelDevice::Get().Run("zero_rows", ZeroRowsParams{device.get(), kKvHeads, kHeadDim, first_row},
                            ZeroRowsLaunch(kLayers, kKvHeads));
    for (size_t i = 0; i < block.size(); ++i) {
      if (i / (kHeadDim * 2) % kPageTokens >= static_cast<size_t>(first_row)) block[i] = 0;
    }
    EXPECT_EQ(FirstDifference(device.Values(), block), -1) << "from row " << first_row;
  }
}

std::vector<int32_t> RunArgmax(const std::vector<float>& logits, int rows) {
  const DeviceArray<float> in(logits);
  const DeviceArray<int32_t> tokens(static_cast<size_t>(rows));
  const int32_t vocab = static_cast<int32_t>(logits.size()) / rows;
  KernelDevice::Get().Run("argmax", ArgmaxParams{in.get(), tokens.get(), vocab}, ArgmaxLaunch(rows));
  return tokens.Values();
}

TEST(CudaArgmax, GivesTheLowestIdOfTheGreatestLogit) {
  SeededRandom random(kElementwiseSeed);
  for (const int vocab : {1, 31, 1023, 1025, 5000}) {
    std::vector<float> logits = RandomFloats(random, static_cast<size_t>(2 * vocab), 9.0f);
    const size_t n = static_cast<size_t>(vocab);
    const size_t first = random.Below(n), again = random.Below(n);
    logits[first] = logits[again] = 10.0f;
    logits[2 * n - 1] = 10.0f;
    EXPECT_EQ(RunArgmax(logits, 2), (std::vector<int32_t>{static_cast<int32_t>(std::min(first, again)), vocab - 1}));
  }
}

TEST(CudaArgmax, OrdersWhatIsNoOrdinaryNumber) {
  EXPECT_EQ(RunArgmax({kNan, -kInfinity, kNan}, 1)[0], 1);
  EXPECT_EQ(RunArgmax({kNan, kNan}, 1)[0], 0);
  EXPECT_EQ(RunArgmax({-1.0f, -0.0f, 0.0f}, 1)[0], 1);
  EXPECT_EQ(RunArgmax({1.0f, kInfinity, kNan, kInfinity}, 1)[0], 1);
  EXPECT_EQ(RunArgmax({-kInfinity, -kInfinity, -3e38f}, 1)[0], 2);
}

}  // namespace
}  // namespace baton::engine::cuda
