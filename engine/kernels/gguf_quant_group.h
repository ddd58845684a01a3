// Groups of 32 weights in the GGUF types whose quants are spread over several arrays: Q5_0, Q4_K, Q5_K, Q6_K
// (github.com/ggml-org/ggml, ggml-common.h names the arrays).
#ifndef BATON_ENGINE_KERNELS_GGUF_QUANT_GROUP_H_
#define BATON_ENGINE_KERNELS_GGUF_QUANT_GROUP_H_

#include <cstdint>

#include "engine/kernels/kernel_table.h"

namespace baton::engine::kernels {

// Weight k is scale * factor * (q[k] - offset) + minimum * minimum_factor. Scale and minimum are f16, shared by 8
// groups in the K formats, whose files hold the minimum with its sign turned. Without a minimum both of its numbers are
// 0.
struct GgufQuantGroup {
  uint8_t q[kGroup];
  int offset;
  uint16_t scale;
  uint16_t minimum;
  // The factors of the first and of the last 16 weights, which differ only in Q6_K.
  int8_t factors[2];
  uint8_t minimum_factor;
};

// Group g of the row that starts at `row`. One of the four formats above.
GgufQuantGroup ReadGgufQuantGroup(WeightFormat format, const uint8_t* row, int64_t g);

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_GGUF_QUANT_GROUP_H_
