// The CPU engine's model runner: weights repacked for the instruction set at hand, threads and scratch.
#ifndef BATON_ENGINE_CPU_MODEL_H_
#define BATON_ENGINE_CPU_MODEL_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv_layout.h"
#include "engine/model_options.h"
#include "engine/model_runner.h"
#include "modelfile/model_file.h"

namespace baton::engine {

// The instruction sets that this machine runs, without kAuto; kScalar is always among them.
std::vector<Isa> SupportedIsas();

// The number of threads that CpuModelOptions::threads asks for: 0 is one per core that this process may use.
int KernelThreads(int threads);

// Bytes of the packed matrices of a model.
int64_t PackedWeightBytes(const modelfile::ModelFile& file, Numerics numerics, Weights weights);

// What LoadCpuModel refuses in a file, whatever the options, without packing its weights. The errors are the same.
absl::Status CheckCpuModel(const modelfile::ModelFile& file);

// Copies what it needs: `file` may be closed afterwards. UNIMPLEMENTED, INVALID_ARGUMENT or NOT_FOUND (a tensor is
// missing or of the wrong shape), naming the tensor.
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadCpuModel(const modelfile::ModelFile& file,
                                                          const CpuModelOptions& options);

}  // namespace baton::engine

#endif  // BATON_ENGINE_CPU_MODEL_H_
