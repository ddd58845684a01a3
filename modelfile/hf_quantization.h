// What config.json of a Hugging Face directory says of quantized weights: quantization_config.
#ifndef BATON_MODELFILE_HF_QUANTIZATION_H_
#define BATON_MODELFILE_HF_QUANTIZATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "modelfile/json_reader.h"

namespace baton::modelfile {

// Rows and columns of a block of FP8 weights that share a scale.
inline constexpr int64_t kFp8Block = 128;

// Which scales FP8 matrices may have, by the configuration. None of them: no matrix may be FP8. Which matrices are FP8
// is said by their own type: the lists of layers that stay as they were are not needed.
struct Fp8Scheme {
  bool tensor_scales = false;
  bool row_scales = false;
  bool block_scales = false;

  bool any() const { return tensor_scales || row_scales || block_scales; }
};

// Reads quant_method "fp8" and, of "compressed-tensors", the format "float-quantized". What they say of activations is
// not used: Baton multiplies with activations of its own precision. `fields` are those of config.json, which may have
// no quantization_config. UNIMPLEMENTED names the key of any other method, and of what changes the weights in another
// way.
absl::StatusOr<Fp8Scheme> ReadHfQuantization(const JsonFields& fields);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_QUANTIZATION_H_
