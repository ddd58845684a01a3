// How a model is computed: numerics, type of weights and of KV, instruction set. The command line, the loader and the
// runner share this data.
#ifndef BATON_ENGINE_MODEL_OPTIONS_H_
#define BATON_ENGINE_MODEL_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/kv_layout.h"
#include "engine/step_gate.h"
#include "modelfile/model_file.h"

namespace baton::engine {

// `exact`: int8 activations, integer group dots, fixed fp32 order: the same bits on every instruction set.
// `fp32`: dequantized weights, float activations and float KV; the reference.
enum class Numerics : uint8_t { kExact, kFp32 };

std::string_view NumericsName(Numerics numerics);

// How float matrices are packed at load: as they are (kAuto; FP8 as bf16 on the CPU), or in blocks of 32 like those of
// a file in Q8_0 (kInt8) or Q4_1 (kInt4). With kInt4 embedding and head become Q8_0, because they lose most by
// rounding. Matrices that the file holds quantized stay as they are, and so do vectors.
enum class Weights : uint8_t { kAuto, kInt8, kInt4 };

std::string_view WeightsName(Weights weights);

// The type in which a matrix is packed; kF8E4M3 where it stays FP8 (kernels::FormatOf).
modelfile::TensorType PackedType(const modelfile::TensorView& matrix, Weights weights);

// Whether any matrix of the file is packed in another type than its own.
bool IsRounded(const modelfile::ModelFile& file, Weights weights);

// kAuto takes the best that the machine has.
enum class Isa : uint8_t { kAuto, kScalar, kAvx2, kAvx512Vnni };

std::string_view IsaName(Isa isa);
// The type in which KV is kept. Without a type asked for, it is bf16 for exact and f32 for fp32. INVALID_ARGUMENT for a
// pair that does not go together: exact takes bf16 or int8 (half the bytes, other bits), fp32 takes f32.
absl::StatusOr<KvDtype> ChooseKvDtype(Numerics numerics, std::optional<KvDtype> asked);

// How far LoadCpuModel is. Any thread may read it meanwhile.
struct LoadProgress {
  std::atomic<int64_t> packed_bytes = 0;
  // 0 until the tensors are known.
  std::atomic<int64_t> total_bytes = 0;
};

// How a CpuModel loads and computes.
struct CpuModelOptions {
  Numerics numerics = Numerics::kExact;
  std::optional<KvDtype> kv_dtype;
  // kFp32 computes with what the quantized blocks stand for.
  Weights weights = Weights::kAuto;
  Isa isa = Isa::kAuto;
  // Kernel threads, the caller's included; 0: one per core.
  int threads = 0;
  // Most rows of one step: chunk budget plus running sequences. Bounds the scratch.
  int max_rows = 1024;
  // Most sequences of one step, for which a device takes room; 0: as many as rows. The CPU takes none.
  int max_sequences = 0;
  // Asked between the parts of a step; outlives the model. Null: the cores are not shared.
  StepGate* gate = nullptr;
  // Outlives the call. Null: nobody watches.
  LoadProgress* progress = nullptr;
};

// How a model's KV lies in blocks.
KvLayout KvLayoutOf(const modelfile::ModelConfig& config, KvDtype dtype);

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_OPTIONS_H_
