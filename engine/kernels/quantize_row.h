// Turns float weights into blocks of 32 as GGUF files hold them (github.com/ggml-org/ggml, ggml-common.h), so that
// weights quantized at load have the bits of a file with these blocks.
#ifndef BATON_ENGINE_KERNELS_QUANTIZE_ROW_H_
#define BATON_ENGINE_KERNELS_QUANTIZE_ROW_H_

#include <cstdint>

#include "modelfile/model_file.h"

namespace baton::engine::kernels {

// `cols` values, a multiple of 32, to cols / 32 blocks of kQ8_0 or kQ4_1. Quants are those of the block's scale and
// minimum as they are stored, rounded to nearest even.
//   kQ8_0: scale max|x| / 127
//   kQ4_1: scale and minimum of the least squared error among nine fits around the line from min(x) to max(x)
// Scales and minima beyond the range of f16 become its largest values. A NaN becomes the least quant.
void QuantizeRow(const float* values, int64_t cols, modelfile::TensorType type, uint8_t* blocks);

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_QUANTIZE_ROW_H_
