#include "engine/model_options.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/status.h"

namespace baton::engine {

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAuto:
      return "auto";
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512Vnni:
      return "avx512-vnni";
  }
  return "unknown";
}

std::string_view NumericsName(Numerics numerics) { return numerics == Numerics::kExact ? "exact" : "fp32"; }

std::string_view WeightsName(Weights weights) {
  switch (weights) {
    case Weights::kAuto:
      return "auto";
    case Weights::kInt8:
      return "int8";
    case Weights::kInt4:
      return "int4";
  }
  return "unknown";
}

modelfile::TensorType PackedType(const modelfile::TensorView& matrix, Weights weights) {
  if (weights == Weights::kAuto || modelfile::TensorBlockElements(matrix.type) > 1) return matrix.type;
  const bool is_outer = matrix.name == "token_embd.weight" || matrix.name == "output.weight";
  return weights == Weights::kInt8 || is_outer ? modelfile::TensorType::kQ8_0 : modelfile::TensorType::kQ4_1;
}

bool IsRounded(const modelfile::ModelFile& file, Weights weights) {
  return std::any_of(file.tensors().begin(), file.tensors().end(), [weights](const modelfile::TensorView& tensor) {
    return tensor.rows > 1 && PackedType(tensor, weights) != tensor.type;
  });
}

absl::StatusOr<KvDtype> ChooseKvDtype(Numerics numerics, std::optional<KvDtype> asked) {
  const bool is_exact = numerics == Numerics::kExact;
  const KvDtype chosen = asked.value_or(is_exact ? KvDtype::kBf16 : KvDtype::kF32);
  if (is_exact ? chosen == KvDtype::kBf16 || chosen == KvDtype::kInt8 : chosen == KvDtype::kF32) return chosen;
  return absl::InvalidArgumentError(absl::StrFormat("%s does not go with numerics %s, which take %s",
                                                    ToAbsl(KvDtypeName(chosen)), ToAbsl(NumericsName(numerics)),
                                                    is_exact ? "bf16 or int8" : "f32"));
}

KvLayout KvLayoutOf(const modelfile::ModelConfig& config, KvDtype dtype) {
  KvLayout layout{.layers = config.layers,
                  .kv_heads = config.kv_heads,
                  .head_dim = config.head_dim,
                  .dtype = dtype,
                  .inner_format = 1};
  if (config.sliding_layers.empty()) return layout;
  layout.window = config.sliding_window;
  layout.sliding_layers = config.sliding_layers;
  return layout;
}

}  // namespace baton::engine
