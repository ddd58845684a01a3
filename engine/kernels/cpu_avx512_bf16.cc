// The operators for AVX512 with VNNI and BF16. Outside an unnamed namespace this file defines its table alone, lest
// the linker keep for all machines what was compiled for one.
#define BATON_HAS_BF16_DOT 1

#include <immintrin.h>

#include "engine/kernels/simd_avx512.h"
#include "engine/kernels/table_cpu.h"

namespace baton::engine::kernels {

BATON_KERNEL_TABLE(kAvx512Bf16Kernels, "avx512-vnni-bf16");

}  // namespace baton::engine::kernels
