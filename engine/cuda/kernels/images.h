// The compiled kernels of this folder, as parts of the binary.
#ifndef BATON_ENGINE_CUDA_KERNELS_IMAGES_H_
#define BATON_ENGINE_CUDA_KERNELS_IMAGES_H_

#include <cstddef>

namespace baton::engine::cuda {

// A fat binary: code of sm_80 and sm_90, and PTX of compute_80 for later devices. For cuModuleLoadData.
const void* KernelsImage();
size_t KernelsImageBytes();

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_IMAGES_H_
