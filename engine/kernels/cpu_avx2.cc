// The operators for AVX2, FMA and F16C. Outside an unnamed namespace this file defines only its table: of an inline
// function in several files the linker would keep any one copy, perhaps one that other machines cannot run.
#include <immintrin.h>

#include "engine/kernels/simd_avx2.h"
#include "engine/kernels/table_cpu.h"

namespace baton::engine::kernels {

BATON_KERNEL_TABLE(kAvx2Kernels, "avx2");

}  // namespace baton::engine::kernels
