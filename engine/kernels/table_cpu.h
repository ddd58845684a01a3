// The table over one Simd. Included by each instruction set's file after its Simd, which the bodies need.
#ifndef BATON_ENGINE_KERNELS_TABLE_CPU_H_
#define BATON_ENGINE_KERNELS_TABLE_CPU_H_

#include "engine/kernels/attention_cpu.h"
#include "engine/kernels/elementwise_cpu.h"
#include "engine/kernels/matmul_cpu.h"

#define BATON_KERNEL_TABLE(symbol, label)     \
  const KernelTable symbol = {                \
      .name = label,                          \
      .rms_norm = RmsNorm,                    \
      .quantize = Quantize,                   \
      .quantize_tile = QuantizeTile,          \
      .quantize_head = QuantizeHead,          \
      .matmul_quant = MatmulQuant,            \
      .matmul_float = MatmulFloat,            \
      .swiglu = SwiGlu,                       \
      .geglu = GeGlu,                         \
      .add = Add,                             \
      .rope = Rope,                           \
      .to_bf16 = ToBf16,                      \
      .attention_bf16 = Attention<Kv::kBf16>, \
      .attention_int8 = Attention<Kv::kInt8>, \
      .attention_f32 = Attention<Kv::kF32>,   \
      .exp = ExpArray,                        \
  }

#endif  // BATON_ENGINE_KERNELS_TABLE_CPU_H_
