// The operators for AVX2, FMA and F16C. Outside an unnamed namespace this file defines its table alone, lest
// the linker keep for all machines what was compiled for one.
#include <immintrin.h>

#include "engine/kernels/simd_avx2.h"
#include "engine/kernels/table_cpu.h"

namespace baton::engine::kernels {

BATON_KERNEL_TABLE(kAvx2Kernels, "avx2");

}  // namespace baton::engine::kernels
