// A model on a CUDA device with its fingerprint: "cuda-sm90-bf16-v1", layout, weights, and the digest of a probe that
// this very device computes. Tensor cores of two generations may round differently where a small probe does not show
// it, so the device's generation (compute capability 9.0 is sm90) is part of the name.
#ifndef BATON_ENGINE_CUDA_CUDA_MODEL_H_
#define BATON_ENGINE_CUDA_CUDA_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/cuda/cuda_runner.h"

namespace baton::engine::cuda {

// Devices whose bits would differ give different fingerprints. The errors are those of CudaRunner::Load.
absl::StatusOr<std::unique_ptr<CudaRunner>> LoadCudaModel(const modelfile::ModelFile& file,
                                                          const CudaModelOptions& options,
                                                          std::shared_ptr<const Device> device);

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_CUDA_MODEL_H_
