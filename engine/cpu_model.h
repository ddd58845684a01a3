// The CPU engine's model: weights repacked for the instruction set at hand, threads, scratch; a ModelRunner.
#ifndef BATON_ENGINE_CPU_MODEL_H_
#define BATON_ENGINE_CPU_MODEL_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv_layout.h"
#include "engine/model_options.h"
#include "engine/model_runner.h"
#include "engine/step_gate.h"
#include "modelfile/model_file.h"

namespace baton::engine {

// How far LoadCpuModel is. Any thread may read it meanwhile.
struct LoadProgress {
  std::atomic<int64_t> packed_bytes = 0;
  // 0 until the tensors are known.
  std::atomic<int64_t> total_bytes = 0;
};

// Those that this machine runs, without kAuto; kScalar is always among them.
std::vector<Isa> SupportedIsas();

// What CpuModelOptions::threads asks for: 0 is one a core.
int KernelThreads(int threads);

struct CpuModelOptions {
  Numerics numerics = Numerics::kExact;
  std::optional<KvDtype> kv_dtype;
  // kFp32 computes with what the quantized blocks stand for.
  Weights weights = Weights::kAuto;
  Isa isa = Isa::kAuto;
  // Kernel threads, the caller's included; 0: one a core.
  int threads = 0;
  // Most rows of one Forward: chunk budget plus running sequences. Bounds the scratch.
  int max_rows = 1024;
  // Asked between the parts of a step; outlives the model. Null: nobody to share the cores with.
  StepGate* gate = nullptr;
  // Outlives the call. Null: nobody watches.
  LoadProgress* progress = nullptr;
};

// Bytes of the packed matrices of a model.
int64_t PackedWeightBytes(const modelfile::ModelFile& file, Numerics numerics, Weights weights);

// Copies what it needs: `file` may be closed afterwards. UNIMPLEMENTED, INVALID_ARGUMENT or NOT_FOUND (a tensor is
// missing or of the wrong shape), naming the tensor.
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadCpuModel(const modelfile::ModelFile& file,
                                                          const CpuModelOptions& options);

}  // namespace baton::engine

#endif  // BATON_ENGINE_CPU_MODEL_H_
