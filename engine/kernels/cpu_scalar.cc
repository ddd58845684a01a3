// The operators for every x86-64: the definition. Outside an unnamed namespace this file defines its table alone, lest
// the linker keep for all machines what was compiled for one.
#include <immintrin.h>

#include "engine/kernels/simd_scalar.h"
#include "engine/kernels/table_cpu.h"

namespace baton::engine::kernels {

BATON_KERNEL_TABLE(kScalarKernels, "scalar");

}  // namespace baton::engine::kernels
