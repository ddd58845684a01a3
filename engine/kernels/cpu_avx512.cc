// The operators for AVX512 with VNNI. Outside an unnamed namespace this file defines its table alone, lest
// the linker keep for all machines what was compiled for one.
#include <immintrin.h>

#include "engine/kernels/simd_avx512.h"
#include "engine/kernels/table_cpu.h"

namespace baton::engine::kernels {

BATON_KERNEL_TABLE(kAvx512Kernels, "avx512-vnni");

}  // namespace baton::engine::kernels
