// Shared by the kernels' tests: random data, comparison by bits, one test per table that this machine runs.
#ifndef BATON_ENGINE_TESTING_EVERY_TABLE_H_
#define BATON_ENGINE_TESTING_EVERY_TABLE_H_

#include <cstring>
#include <string>
#include <vector>

#include "common/random.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/dispatch.h"
#include "engine/kernels/kernel_table.h"
#include "gtest/gtest.h"

namespace baton::engine::kernels {

inline constexpr uint64_t kSeed = 20240117;

// Uniform in [-limit, limit).
inline float RandomFloat(RandomSource& random, float limit) {
  return limit * (static_cast<float>(random.Next64() >> 40) * 0x1p-23f - 1.0f);
}

inline std::vector<float> RandomFloats(RandomSource& random, size_t n, float limit) {
  std::vector<float> out(n);
  for (float& x : out) x = RandomFloat(random, limit);
  return out;
}

// Index of the first element that differs in a bit, or -1.
template <typename T>
int64_t FirstDifference(const T* a, const T* b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) != 0) return static_cast<int64_t>(i);
  }
  return -1;
}

template <typename T>
int64_t FirstDifference(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() ? FirstDifference(a.data(), b.data(), a.size()) : 0;
}

// Every kind of table; one that this machine cannot run is skipped by name.
class EveryTable : public testing::TestWithParam<const KernelTable*> {
 protected:
  void SetUp() override {
    bool runs = false;
    for (const KernelTable* table : SupportedKernels()) runs |= table == GetParam();
    if (!runs) GTEST_SKIP() << "this processor has no " << GetParam()->name;
  }
  const KernelTable& table() const { return *GetParam(); }

  FpStateGuard fp_state_;
};

inline auto AllTables() {
  return testing::Values(&kScalarKernels, &kAvx2Kernels, &kAvx512Kernels, &kAvx512Bf16Kernels);
}

inline std::string TableName(const testing::TestParamInfo<const KernelTable*>& info) {
  std::string name = info.param->name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_TESTING_EVERY_TABLE_H_
