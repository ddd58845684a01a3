#include "engine/kernels/dispatch.h"

#include <cpuid.h>
#include <xmmintrin.h>

#include "common/check.h"

namespace baton::engine::kernels {
namespace {

// MXCSR: all exceptions masked, round to nearest even, flush to zero (bit 15), denormals are zero (bit 6).
constexpr unsigned kFpState = 0x1f80u | 0x8000u | 0x0040u;

// clang 14's __builtin_cpu_supports does not know the name.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

std::vector<const KernelTable*> Detect() {
  std::vector<const KernelTable*> tables = {&kScalarKernels};
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !HasF16c()) {
    return tables;
  }
  tables.push_back(&kAvx2Kernels);
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vnni")) {
    return tables;
  }
  tables.push_back(&kAvx512Kernels);
  if (!__builtin_cpu_supports("avx512bf16")) return tables;
  // Both give the same bits. VDPBF16PS is worth one FMA in time on AMD's cores; Intel's need two cycles for it, and two
  // FMAs on widened operands take one (measured on a Xeon of family 6, model 207: 46 against 72 GMAC/s in attention).
  const bool is_fast = __builtin_cpu_is("amd");
  tables.insert(is_fast ? tables.end() : tables.end() - 1, &kAvx512Bf16Kernels);
  return tables;
}

}  // namespace

const std::vector<const KernelTable*>& SupportedKernels() {
  static const auto* const kTables = new std::vector<const KernelTable*>(Detect());
  return *kTables;
}

AttentionKernel AttentionOver(KvDtype dtype, const KernelTable& table) {
  BATON_CHECK(dtype != KvDtype::kOpaque);
  if (dtype == KvDtype::kInt8) return table.attention_int8;
  return dtype == KvDtype::kBf16 ? table.attention_bf16 : table.attention_f32;
}

size_t AttentionScratchBytes(int heads_per_kv, int head_dim) {
  const size_t queries = static_cast<size_t>(kMaxQueryRows) * static_cast<size_t>(heads_per_kv);
  return queries * sizeof(float) * (2 * kSplitTokens + 3 * static_cast<size_t>(head_dim) + 4);
}

FpStateGuard::FpStateGuard() : saved_(_mm_getcsr()) { _mm_setcsr(kFpState); }
FpStateGuard::~FpStateGuard() { _mm_setcsr(saved_); }

}  // namespace baton::engine::kernels
