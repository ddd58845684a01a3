// The fingerprint of a CUDA runner: "cuda-bf16-v1", layout, weights, and the digest of a probe that the device
// computes.
#ifndef BATON_ENGINE_CUDA_CUDA_FINGERPRINT_H_
#define BATON_ENGINE_CUDA_CUDA_FINGERPRINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/cuda/cuda_runner.h"

namespace baton::engine::cuda {

// Devices whose bits would differ have different fingerprints. Loads and runs the probe's models if options.probes.
absl::StatusOr<std::string> CudaFingerprint(const modelfile::ModelFile& file, const CudaModelOptions& options,
                                            const KvLayout& layout, std::shared_ptr<const Device> device);

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_CUDA_FINGERPRINT_H_
