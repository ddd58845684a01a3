// The CPU engine's model: weights repacked for the instruction set at hand, threads, scratch; a ModelRunner.
#ifndef BATON_ENGINE_CPU_MODEL_H_
#define BATON_ENGINE_CPU_MODEL_H_

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv_layout.h"
#include "engine/model_runner.h"
#include "engine/step_gate.h"
#include "modelfile/model_file.h"

namespace baton::engine {

// `exact`: int8 activations, integer group dots, fixed fp32 order: the same bits on every instruction set.
// `fp32`: dequantized weights, float activations and float KV; the reference.
enum class Numerics : uint8_t { kExact, kFp32 };

// kAuto takes the best that the machine has.
enum class Isa : uint8_t { kAuto, kScalar, kAvx2, kAvx512Vnni };

std::string_view IsaName(Isa isa);
// Those that this machine runs, without kAuto; kScalar is always among them.
std::vector<Isa> SupportedIsas();

// What CpuModelOptions::threads asks for: 0 is one a core.
int KernelThreads(int threads);

// What KV is kept in. None asked for: bf16 for exact, f32 for fp32. INVALID_ARGUMENT for a pair that does not go
// together: exact takes bf16 or int8 (half the bytes, other bits), fp32 takes f32.
absl::StatusOr<KvDtype> ChooseKvDtype(Numerics numerics, std::optional<KvDtype> asked);

struct CpuModelOptions {
  Numerics numerics = Numerics::kExact;
  std::optional<KvDtype> kv_dtype;
  Isa isa = Isa::kAuto;
  // Kernel threads, the caller's included; 0: one a core.
  int threads = 0;
  // Most rows of one Forward: chunk budget plus running sequences. Bounds the scratch.
  int max_rows = 1024;
  // Asked before a step and between its layers; outlives the model. Null: nobody to share the cores with.
  StepGate* gate = nullptr;
};

// Copies what it needs: `file` may be closed afterwards. UNIMPLEMENTED, INVALID_ARGUMENT or NOT_FOUND (a tensor is
// missing or of the wrong shape), naming the tensor.
absl::StatusOr<std::unique_ptr<ModelRunner>> LoadCpuModel(const modelfile::ModelFile& file,
                                                          const CpuModelOptions& options);

}  // namespace baton::engine

#endif  // BATON_ENGINE_CPU_MODEL_H_
