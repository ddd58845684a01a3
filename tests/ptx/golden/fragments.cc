#include "tests/ptx/golden/fragments.h"

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "common/digest.h"
#include "common/random.h"
#include "common/status.h"
#include "engine/kernels/half.h"
#include "tests/ptx/golden/fragment_kernels.h"

extern "C" {
extern const unsigned char baton_ptx_fragments[];
}

namespace baton::ptx {
namespace {

using engine::kernels::BitsToFloat;
using engine::kernels::FloatToBits;

constexpr int kWarpLanes = 32;
constexpr uint64_t kFragmentSeed = 20;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// In [-1, 1), of 24 bits.
float Uniform(RandomSource& random) {
  return static_cast<float>(static_cast<int32_t>(random.Next64() >> 40) - (1 << 23)) * 0x1p-23f;
}

// d = a * b + c, whose values of a and b are bf16's.
struct MatrixProduct {
  float a[16][16] = {};
  float b[16][8] = {};
  float c[16][8] = {};

  // By the PTX ISA's fragments of m16n8k16.
  std::vector<uint32_t> Inputs() const {
    const auto pair = [](float low, float high) {
      return static_cast<uint32_t>(engine::kernels::FloatToBf16(high)) << 16 | engine::kernels::FloatToBf16(low);
    };
    std::vector<uint32_t> inputs;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const int g = lane / 4, k = lane % 4 * 2;
      for (int i = 0; i < 4; ++i) {
        const float* const from = a[g + i % 2 * 8] + k + i / 2 * 8;
        inputs.push_back(pair(from[0], from[1]));
      }
      for (const int depth : {k, k + 8}) inputs.push_back(pair(b[depth][g], b[depth + 1][g]));
      for (int i = 0; i < 4; ++i) inputs.push_back(FloatToBits(c[g + i / 2 * 8][k + i % 2]));
    }
    return inputs;
  }

  std::vector<float> Tolerances() const {
    std::vector<float> tolerances;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double magnitudes = std::fabs(c[row][column]);
        for (int k = 0; k < 16; ++k) magnitudes += std::fabs(double{a[row][k]} * b[k][column]);
        tolerances.push_back(static_cast<float>(magnitudes * 0x1p-18));
      }
    }
    return tolerances;
  }
};

using Element = std::function<float(int, int)>;

MatrixProduct ProductOf(const Element& a, const Element& b, const Element& c) {
  MatrixProduct product;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) product.a[i][j] = a(i, j);
    for (int j = 0; j < 8; ++j) {
      product.b[i][j] = b(i, j);
      product.c[i][j] = c(i, j);
    }
  }
  return product;
}

float RoundedToBf16(float x) { return engine::kernels::Bf16ToFloat(engine::kernels::FloatToBf16(x)); }

// Whole numbers, of which every sum is exact in any order.
Fragment MmaLayout() {
  const MatrixProduct product =
      ProductOf([](int i, int k) { return 16.0f * i + k; }, [](int k, int j) { return 8.0f * k + j - 64.0f; },
                [](int i, int j) { return 1000.0f * i + j; });
  return {.name = "mma-layout", .kernel = "fragment_mma", .inputs = product.Inputs(), .words = 4};
}

Fragment MmaSums(const char* name, const Element& a, const Element& b, const Element& c) {
  const MatrixProduct product = ProductOf(a, b, c);
  return {.name = name,
          .kernel = "fragment_mma",
          .inputs = product.Inputs(),
          .words = 4,
          .tolerances = product.Tolerances()};
}

// Row 0 is infinite, row 1 not a number, row 2 infinite less infinite, row 3 infinite, but times 0 in column 0.
Fragment MmaSpecials() {
  MatrixProduct product = ProductOf([](int i, int k) { return static_cast<float>((i + k) % 5); },
                                    [](int k, int j) { return k == 0 && j == 0 ? 0.0f : 1.0f + (k + j) % 3; },
                                    [](int, int) { return 1.0f; });
  const std::vector<float> exact(kWarpLanes * 4, 0.0f);
  product.a[0][1] = kInfinity;
  product.a[1][3] = std::numeric_limits<float>::quiet_NaN();
  product.a[2][1] = kInfinity;
  product.a[2][9] = -kInfinity;
  product.a[3][0] = kInfinity;
  return {
      .name = "mma-specials", .kernel = "fragment_mma", .inputs = product.Inputs(), .words = 4, .tolerances = exact};
}

void AddProducts(std::vector<Fragment>& fragments) {
  SeededRandom random(kFragmentSeed);
  const auto any = [&](int, int) { return RoundedToBf16(Uniform(random)); };
  const auto any_f32 = [&](int, int) { return Uniform(random); };
  const auto zero = [](int, int) { return 0.0f; };
  // From 2^-12 to 2^11 times as large.
  const auto spread = [&](int, int) {
    const int exponent = static_cast<int>(random.Below(24)) - 12;
    return RoundedToBf16(std::ldexp(Uniform(random), exponent));
  };
  // Below the least normal bf16, which is 2^-126.
  const auto denormal = [&](int, int) { return std::ldexp(std::floor(64.0f * Uniform(random)), -133); };
  fragments.push_back(MmaLayout());
  fragments.push_back(MmaSums("mma-sums", any, any, any_f32));
  fragments.push_back(MmaSums("mma-sums-from-zero", any, any, zero));
  fragments.push_back(MmaSums("mma-spread", spread, spread, spread));
  fragments.push_back(MmaSums("mma-denormals", denormal, any, zero));
  fragments.push_back(MmaSpecials());
}

Fragment Numbered(const char* name, const char* kernel, int inputs, int words) {
  Fragment fragment{.name = name, .kernel = kernel, .words = words};
  for (int i = 0; i < kWarpLanes * inputs; ++i) {
    fragment.inputs.push_back(static_cast<uint32_t>(2 * i + 1) << 16 | static_cast<uint32_t>(2 * i));
  }
  return fragment;
}

Fragment Roundings() {
  Fragment fragment{.name = "cvt-bf16x2", .kernel = "fragment_round", .words = 4};
  // Zeros, ties to even both ways, what lies beside a tie, the largest, infinity, denormals, NaNs.
  fragment.inputs = {0x00000000, 0x80000000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff,
                     0x7f7fffff, 0x7f7f7fff, 0x7f800000, 0xff800000, 0x00000001, 0x007fffff,
                     0x00008000, 0x00018000, 0x7fc00000, 0xffffffff, 0x7f800001, 0xff7fffff};
  SeededRandom random(kFragmentSeed + 1);
  while (fragment.inputs.size() < kWarpLanes * 8) fragment.inputs.push_back(static_cast<uint32_t>(random.Next64()));
  return fragment;
}

Fragment Powers() {
  Fragment fragment{.name = "ex2", .kernel = "fragment_exp2", .words = 8};
  for (const float x : {0.0f, -0.0f, 1.0f, -1.0f, 127.0f, 128.0f, -126.0f, -127.0f, -1000.0f, kInfinity, -kInfinity,
                        std::numeric_limits<float>::quiet_NaN(), 0x1p-140f, -0x1p-140f, 0x1p-30f, -0x1p-30f}) {
    fragment.inputs.push_back(FloatToBits(x));
  }
  SeededRandom random(kFragmentSeed + 2);
  while (fragment.inputs.size() < kWarpLanes * 8) fragment.inputs.push_back(FloatToBits(120.0f * Uniform(random)));
  for (const uint32_t x : fragment.inputs) {
    const float power = std::exp2(BitsToFloat(x));
    fragment.tolerances.push_back(std::isfinite(power) && power >= 0x1p-126f ? power * 0x1p-21f : 0.0f);
  }
  return fragment;
}

Fragment Arithmetic() {
  Fragment fragment{.name = "arithmetic", .kernel = "fragment_arithmetic", .words = 5};
  SeededRandom random(kFragmentSeed + 3);
  // The last lanes' numbers are so small that their quotients and products are denormal.
  for (int i = 0; i < kWarpLanes * 3; ++i) {
    const int exponent = static_cast<int>(random.Below(40)) - (i < kWarpLanes * 2 ? 20 : 90);
    // Never 0, which would divide.
    fragment.inputs.push_back(FloatToBits(std::ldexp(Uniform(random), exponent)) | 1);
  }
  return fragment;
}

Fragment Loads() {
  Fragment fragment{.name = "loads-and-sum", .kernel = "fragment_loads", .words = 9};
  SeededRandom random(kFragmentSeed + 4);
  for (int i = 0; i < kWarpLanes * 4; ++i) fragment.inputs.push_back(FloatToBits(Uniform(random)));
  return fragment;
}

absl::StatusOr<FragmentResult> RunFragment(const engine::cuda::Device& device, const engine::cuda::Stream& stream,
                                           const Fragment& fragment) {
  using engine::cuda::DeviceBuffer;
  FragmentResult result{.name = fragment.name, .words = fragment.words};
  const size_t in_bytes = fragment.inputs.size() * sizeof(uint32_t);
  result.inputs = DigestBytes(fragment.inputs.data(), in_bytes).ToHex();
  result.values.resize(static_cast<size_t>(kWarpLanes) * static_cast<size_t>(fragment.words));
  const size_t out_bytes = result.values.size() * sizeof(uint32_t);
  BATON_ASSIGN_OR_RETURN(const CUfunction kernel, device.Kernel(fragment.kernel, 0));
  BATON_ASSIGN_OR_RETURN(const DeviceBuffer in, DeviceBuffer::Allocate(device, in_bytes));
  BATON_ASSIGN_OR_RETURN(const DeviceBuffer out, DeviceBuffer::Allocate(device, out_bytes));
  stream.CopyToDevice(in.address(), fragment.inputs.data(), in_bytes);
  stream.Launch(kernel, {.threads = kWarpLanes}, FragmentParams{in.at<const uint32_t>(), out.at<uint32_t>()});
  stream.CopyToHost(result.values.data(), out.address(), out_bytes);
  stream.Synchronize();
  return result;
}

}  // namespace

std::vector<Fragment> AllFragments() {
  std::vector<Fragment> fragments;
  AddProducts(fragments);
  fragments.push_back(Numbered("ldmatrix-x4", "fragment_ldmatrix", 4, 4));
  fragments.push_back(Numbered("ldmatrix-x4-trans", "fragment_ldmatrix_trans", 4, 4));
  fragments.push_back(Roundings());
  fragments.push_back(Powers());
  fragments.push_back(Arithmetic());
  fragments.push_back(Loads());
  fragments.push_back(Numbered("shuffles", "fragment_shuffle", 1, 7));
  // So that not every word is even.
  for (size_t i = 0; i < kWarpLanes; i += 3) fragments.back().inputs[i] |= 1;
  fragments.push_back(Numbered("cp-async", "fragment_async", 4, 6));
  return fragments;
}

absl::StatusOr<std::vector<FragmentResult>> RunFragments(const engine::cuda::Device& device,
                                                         const std::vector<Fragment>& fragments) {
  BATON_ASSIGN_OR_RETURN(const engine::cuda::Stream stream, engine::cuda::Stream::Create(device));
  std::vector<FragmentResult> results;
  for (const Fragment& fragment : fragments) {
    BATON_ASSIGN_OR_RETURN(FragmentResult result, RunFragment(device, stream, fragment));
    results.push_back(std::move(result));
  }
  return results;
}

const void* FragmentsImage() { return baton_ptx_fragments; }

}  // namespace baton::ptx
