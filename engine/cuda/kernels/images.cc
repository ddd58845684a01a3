#include "engine/cuda/kernels/images.h"

extern "C" {
extern const unsigned char baton_cuda_kernels[];
extern const unsigned char baton_cuda_kernels_end[];
}

namespace baton::engine::cuda {

const void* KernelsImage() { return baton_cuda_kernels; }

size_t KernelsImageBytes() { return static_cast<size_t>(baton_cuda_kernels_end - baton_cuda_kernels); }

}  // namespace baton::engine::cuda
