#include "engine/cuda/kernels/testing/kernel_device.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/dispatch.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kProductSeed = 2718;
// The unit is an ulp of the sum of the products' magnitudes.
constexpr double kProductUlps = 4;

// A product's operands in the device's memory.
class Product {
 public:
  Product(const HostMatrix& weights, const std::vector<Bf16>& acts)
      : weights_(weights), rows_(static_cast<int>(acts.size()) / weights.k), matrix_(weights), acts_(acts) {}

  std::vector<float> Many() const { return Run(ProductKernel(weights_.format), ProductLaunch(matrix(), rows_)); }
  std::vector<float> Few() const { return Run(ProductFewKernel(weights_.format), ProductFewLaunch(matrix(), rows_)); }

  // [rows][n], of rows that lie `gap` further apart. What lies between must stay as it was.
  std::vector<float> Run(const char* kernel, const Launch& launch, int gap = 0) const {
    const size_t stride = static_cast<size_t>(weights_.n + gap);
    const std::vector<float> before(static_cast<size_t>(rows_) * stride, -7.0f);
    const DeviceArray<float> out(before);
    const ProductParams params{matrix(), acts_.get(), out.get(), rows_, static_cast<int32_t>(stride)};
    KernelDevice::Get().Run(kernel, params, launch);
    std::vector<float> got = out.Values();
    std::vector<float> rows;
    for (size_t i = 0; i < got.size(); ++i) {
      if (i % stride < static_cast<size_t>(weights_.n)) {
        rows.push_back(got[i]);
      } else {
        EXPECT_EQ(got[i], -7.0f) << kernel << " writes beside its columns";
      }
    }
    return rows;
  }

  const Matrix& matrix() const { return matrix_.get(); }

 private:
  const HostMatrix& weights_;
  const int rows_;
  const DeviceMatrix matrix_;
  const DeviceArray<Bf16> acts_;
};

// Of each output, the sum of `of_product` of its products.
std::vector<double> Sums(const HostMatrix& weights, const std::vector<Bf16>& acts, double of_product(double)) {
  std::vector<double> out;
  const std::vector<float> x = ToFloat(acts);
  for (size_t row = 0; row < x.size() / static_cast<size_t>(weights.k); ++row) {
    for (int c = 0; c < weights.n; ++c) {
      double sum = 0;
      for (int i = 0; i < weights.k; ++i) {
        const double act = x[row * static_cast<size_t>(weights.k) + static_cast<size_t>(i)];
        sum += of_product(static_cast<double>(weights.At(c, i)) * act);
      }
      out.push_back(sum);
    }
  }
  return out;
}

// Exact while sums are below 2^24.
std::vector<float> WholeSums(const HostMatrix& weights, const std::vector<Bf16>& acts) {
  const std::vector<double> sums = Sums(weights, acts, [](double product) { return product; });
  return {sums.begin(), sums.end()};
}

std::vector<double> Magnitudes(const HostMatrix& weights, const std::vector<Bf16>& acts) {
  return Sums(weights, acts, [](double product) { return std::abs(product); });
}

std::vector<Bf16> WholeActs(int rows, int k, RandomSource& random) {
  std::vector<float> x(static_cast<size_t>(rows) * static_cast<size_t>(k));
  for (float& y : x) y = static_cast<float>(random.Below(17)) - 8.0f;
  return ToBf16(x);
}

std::vector<Bf16> Row(const std::vector<Bf16>& acts, int k, int row) {
  return {acts.begin() + row * k, acts.begin() + (row + 1) * k};
}

struct ProductShape {
  int n;
  int k;
  int rows;
};

TEST(CudaProduct, FewRowsOfWholeNumbersAreExact) {
  SeededRandom random(kProductSeed);
  for (const WeightKind& kind : kWeightKinds) {
    for (const auto& [n, k, rows] : {ProductShape{16, 32, 1},
                                     {48, 96, 3},
                                     {16, 256, 8},
                                     {32, 288, 9},
                                     {16, 512, 2},
                                     {16, 544, 5},
                                     {16, 1600, 1},
                                     {16, 2336, 7},
                                     {32, 768, 3}}) {
      const HostMatrix weights = RandomMatrix(kind, n, k, true, random);
      const std::vector<Bf16> acts = WholeActs(rows, k, random);
      EXPECT_EQ(FirstDifference(Product(weights, acts).Few(), WholeSums(weights, acts)), -1)
          << "format " << static_cast<int>(kind.format) << " factors " << kind.has_factors << " n " << n << " k " << k
          << " rows " << rows;
    }
  }
}

TEST(CudaProduct, ManyRowsOfWholeNumbersAreExact) {
  SeededRandom random(kProductSeed);
  for (const WeightKind& kind : kWeightKinds) {
    for (const auto& [n, k, rows] : {ProductShape{16, 32, 1},
                                     {48, 96, 9},
                                     {144, 64, 40},
                                     {16, 288, 66},
                                     {32, 544, 17},
                                     {112, 160, 8},
                                     {144, 256, 9},
                                     {16, 768, 3}}) {
      const HostMatrix weights = RandomMatrix(kind, n, k, true, random);
      const std::vector<Bf16> acts = WholeActs(rows, k, random);
      EXPECT_EQ(FirstDifference(Product(weights, acts).Many(), WholeSums(weights, acts)), -1)
          << "format " << static_cast<int>(kind.format) << " factors " << kind.has_factors << " n " << n << " k " << k
          << " rows " << rows;
    }
  }
}

TEST(CudaProduct, EveryNumberOfRowsIsExact) {
  SeededRandom random(kProductSeed);
  for (int rows = 1; rows <= 40; ++rows) {
    const HostMatrix weights =
        RandomMatrix(kWeightKinds[static_cast<size_t>(rows) % std::size(kWeightKinds)], 32, 96, true, random);
    const std::vector<Bf16> acts = WholeActs(rows, 96, random);
    const std::vector<float> want = WholeSums(weights, acts);
    EXPECT_EQ(FirstDifference(Product(weights, acts).Few(), want), -1) << rows << " rows";
    EXPECT_EQ(FirstDifference(Product(weights, acts).Many(), want), -1) << rows << " rows";
  }
}

TEST(CudaProduct, EveryDepthIsExact) {
  SeededRandom random(kProductSeed);
  for (int k = 32; k <= 1600; k += 32) {
    const HostMatrix weights =
        RandomMatrix(kWeightKinds[static_cast<size_t>(k / 32) % std::size(kWeightKinds)], 16, k, true, random);
    const std::vector<Bf16> acts = WholeActs(2, k, random);
    const std::vector<float> want = WholeSums(weights, acts);
    EXPECT_EQ(FirstDifference(Product(weights, acts).Few(), want), -1) << "k " << k;
    if (k % 160 != 32) continue;
    EXPECT_EQ(FirstDifference(Product(weights, acts).Many(), want), -1) << "k " << k;
  }
}

TEST(CudaProduct, TilesOfRowsAndColumnsAreAllReached) {
  SeededRandom random(kProductSeed);
  // Two tiles of columns by ten of rows: more than go together.
  const HostMatrix weights = RandomMatrix({WeightFormat::kInt4}, 144, 32, true, random);
  const std::vector<Bf16> acts = WholeActs(9 * kManyRows + 3, 32, random);
  EXPECT_EQ(FirstDifference(Product(weights, acts).Many(), WholeSums(weights, acts)), -1);
}

TEST(CudaProduct, NothingIsWrittenBesideTheColumns) {
  SeededRandom random(kProductSeed);
  const HostMatrix weights = RandomMatrix({WeightFormat::kBf16}, 48, 64, true, random);
  const std::vector<Bf16> acts = WholeActs(5, 64, random);
  const Product product(weights, acts);
  const std::vector<float> want = WholeSums(weights, acts);
  EXPECT_EQ(FirstDifference(product.Run("product_bf16", ProductLaunch(product.matrix(), 5), 24), want), -1);
  EXPECT_EQ(FirstDifference(product.Run("product_few_bf16", ProductFewLaunch(product.matrix(), 5), 24), want), -1);
}

// The same bits by few and by many rows, in any batch, quantized or not.
TEST(CudaProduct, ARowsBitsDependOnNothingElse) {
  SeededRandom random(kProductSeed);
  for (const WeightKind& kind : kWeightKinds) {
    for (const auto& [n, k, rows] : {ProductShape{32, 576, 11}, {16, 800, 3}, {48, 320, 40}, {32, 768, 9}}) {
      const HostMatrix weights = RandomMatrix(kind, n, k, false, random);
      const HostMatrix plain = weights.AsBf16();
      const std::vector<Bf16> acts = ToBf16(RandomFloats(random, static_cast<size_t>(rows * k), 3.0f));
      const std::vector<float> many = Product(weights, acts).Many();
      EXPECT_EQ(FirstDifference(Product(weights, acts).Few(), many), -1) << "few, k " << k;
      EXPECT_EQ(FirstDifference(Product(plain, acts).Many(), many), -1) << "as bf16, k " << k;
      EXPECT_EQ(FirstDifference(Product(plain, acts).Few(), many), -1) << "few as bf16, k " << k;
      for (const int row : {0, rows / 2, rows - 1}) {
        const std::vector<float> alone(many.begin() + row * n, many.begin() + (row + 1) * n);
        EXPECT_EQ(FirstDifference(Product(weights, Row(acts, k, row)).Few(), alone), -1) << "row " << row;
        EXPECT_EQ(FirstDifference(Product(weights, Row(acts, k, row)).Many(), alone), -1) << "row " << row;
      }
    }
  }
}

// Each row of weights has every byte, from another one on; a zero stands in the place of NaN.
TEST(CudaProduct, EveryElementOfFp8HasItsValueUnderEveryScale) {
  constexpr int kDepth = 256;
  HostMatrix weights{
      .format = WeightFormat::kFp8, .n = 32, .k = kDepth, .values = {}, .scales = {}, .factors = {}, .meant = {}};
  const float scales[] = {1.0f, 0x1p-110f, 0x1p118f, 0x1.921fb6p-9f};
  std::vector<float> elements;
  for (int byte = 0; byte < kDepth; ++byte) {
    const float mantissa = static_cast<float>(byte & 7), exponent = static_cast<float>(byte >> 3 & 15);
    const float size = exponent == 0 ? mantissa * 0x1p-9f : (8 + mantissa) * std::exp2(exponent - 10);
    elements.push_back((byte & 0x7f) == 0x7f ? 0.0f : byte < 128 ? size : -size);
  }
  for (size_t row = 0; row < 32; ++row) {
    const float scale = scales[row % 4];
    weights.scales.insert(weights.scales.end(), 2, std::bit_cast<uint32_t>(scale));
    for (size_t i = 0; i < kDepth; ++i) {
      const size_t at = (i + row * 11) % kDepth;
      weights.values.push_back((at & 0x7f) == 0x7f ? 0 : static_cast<uint8_t>(at));
      weights.meant.push_back(RoundToBf16(elements[at] * scale));
    }
  }
  // One element at a time.
  std::vector<Bf16> acts(kDepth * static_cast<size_t>(kDepth));
  std::vector<float> want(kDepth * size_t{32});
  for (size_t i = 0; i < kDepth; ++i) {
    acts[i * kDepth + i] = ToBf16(1.0f);
    for (size_t row = 0; row < 32; ++row) want[i * 32 + row] = weights.meant[row * kDepth + i] + 0.0f;
  }
  const Product product(weights, acts);
  EXPECT_EQ(FirstDifference(product.Many(), want), -1);
  EXPECT_EQ(FirstDifference(product.Few(), want), -1);
}

// A split of zeros before and after does not change what the order of splits would: large, small, large cancels.
TEST(CudaProduct, SplitsAreAddedInAscendingOrder) {
  const int k = 1024;
  HostMatrix weights{
      .format = WeightFormat::kBf16, .n = 16, .k = k, .values = {}, .scales = {}, .factors = {}, .meant = {}};
  weights.meant.assign(16 * static_cast<size_t>(k), 0.0f);
  const float of_split[] = {0x1p24f, 1.0f, -0x1p24f, 1.0f};
  for (size_t row = 0; row < 16; ++row) {
    for (size_t s = 0; s < 4; ++s) weights.meant[row * k + s * 256 + row * 3] = of_split[s];
  }
  weights = weights.AsBf16();
  const std::vector<Bf16> acts(2 * static_cast<size_t>(k), ToBf16(1.0f));
  // ((2^24 + 1) - 2^24) + 1 = 1, where 2^24 + 1 rounds to 2^24.
  const std::vector<float> want(32, 1.0f);
  EXPECT_EQ(FirstDifference(Product(weights, acts).Few(), want), -1);
  EXPECT_EQ(FirstDifference(Product(weights, acts).Many(), want), -1);
}

TEST(CudaProduct, ANanOrInfinityStaysInItsRow) {
  SeededRandom random(kProductSeed);
  const HostMatrix weights = RandomMatrix({WeightFormat::kInt8}, 32, 352, false, random);
  std::vector<Bf16> acts = ToBf16(RandomFloats(random, 9 * 352, 1.0f));
  const std::vector<float> before = Product(weights, acts).Many();
  acts[2 * 352 + 17] = 0x7fc0;
  acts[5 * 352 + 351] = 0x7f80;
  for (const std::vector<float>& got : {Product(weights, acts).Many(), Product(weights, acts).Few()}) {
    for (size_t i = 0; i < got.size(); ++i) {
      if (i / 32 == 2 || i / 32 == 5) {
        EXPECT_FALSE(std::isfinite(got[i])) << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(before[i])) << i;
      }
    }
  }
}

// The CPU's product in f32: [col_blocks][rows][16] of weights [col_blocks][k][16] and activations [k][16 rows].
std::vector<float> OnCpu(const HostMatrix& weights, const std::vector<Bf16>& acts) {
  const int rows = static_cast<int>(acts.size()) / weights.k;
  const size_t k = static_cast<size_t>(weights.k), n = static_cast<size_t>(weights.n);
  kernels::AlignedBuffer w(n * k * 4), x((static_cast<size_t>(rows) + 15) / 16 * 16 * k * 4),
      y(n * static_cast<size_t>(rows) * 4);
  std::memset(x.data(), 0, x.bytes());
  float* const to = reinterpret_cast<float*>(w.data());
  for (size_t c = 0; c < n; ++c) {
    for (size_t i = 0; i < k; ++i) to[(c / 16 * k + i) * 16 + c % 16] = weights.meant[c * k + i];
  }
  float* const left = reinterpret_cast<float*>(x.data());
  for (size_t i = 0; i < acts.size(); ++i) left[(i / k / 16 * k + i % k) * 16 + i / k % 16] = ToFloat(acts[i]);
  kernels::kScalarKernels.matmul_float({.format = kernels::WeightFormat::kF32,
                                        .depth = weights.k,
                                        .rows = rows,
                                        .col_blocks = weights.n / 16,
                                        .acts = left,
                                        .weights = w.data(),
                                        .block_stride = k * 16 * 4,
                                        .out = reinterpret_cast<float*>(y.data())});
  std::vector<float> out(n * static_cast<size_t>(rows));
  const float* const blocks = reinterpret_cast<const float*>(y.data());
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    for (size_t c = 0; c < n; ++c) out[r * n + c] = blocks[(c / 16 * static_cast<size_t>(rows) + r) * 16 + c % 16];
  }
  return out;
}

TEST(CudaProduct, AgreesWithTheCpu) {
  const kernels::FpStateGuard fp_state;
  SeededRandom random(kProductSeed);
  for (const WeightKind& kind : kWeightKinds) {
    for (const auto& [n, k, rows] :
         {ProductShape{16, 32, 1}, {48, 1600, 3}, {32, 288, 9}, {16, 2304, 8}, {80, 256, 17}}) {
      const HostMatrix weights = RandomMatrix(kind, n, k, false, random);
      std::vector<Bf16> acts = ToBf16(RandomFloats(random, static_cast<size_t>(rows * k), 1.0f));
      // In the last row large and small numbers alternate, in the first of several all are zero.
      for (int i = 0; i < k; ++i) {
        Bf16& last = acts[static_cast<size_t>((rows - 1) * k + i)];
        last = ToBf16(ToFloat(last) * (i % 2 == 0 ? 0x1p20f : 0x1p-20f));
        if (rows > 1) acts[static_cast<size_t>(i)] = 0;
      }
      const std::vector<float> want = OnCpu(weights, acts);
      // Products of either sign cancel: what both sums have rounded away is measured by the sum of their magnitudes.
      const std::vector<double> magnitudes = Magnitudes(weights, acts);
      for (const std::vector<float>& got : {Product(weights, acts).Few(), Product(weights, acts).Many()}) {
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          if (got[i] == want[i]) continue;
          EXPECT_LE(InUlps(static_cast<double>(got[i]) - want[i], magnitudes[i], kFloatBits), kProductUlps)
              << "format " << static_cast<int>(kind.format) << " n " << n << " k " << k << " rows " << rows << " at "
              << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine::cuda
