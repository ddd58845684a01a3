// The operators for every x86-64: the definition. Outside an unnamed namespace this file defines only its table: of
// an inline function in several files the linker would keep any one copy, perhaps one that other machines cannot
// run.
#include <immintrin.h>

#include "engine/kernels/simd_scalar.h"
#include "engine/kernels/table_cpu.h"

namespace baton::engine::kernels {

BATON_KERNEL_TABLE(kScalarKernels, "scalar");

}  // namespace baton::engine::kernels
