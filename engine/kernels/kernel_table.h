// Every CPU operator of the engine: one table of functions per instruction set. The scalar table is the definition, and
// the other tables equal it bit for bit (matmul_test.cc, attention_test.cc, elementwise_test.cc).
//
// All operators run under the floating-point state of FpStateGuard (round to nearest even, denormals are zero, flush to
// zero). They are pure functions of their arguments: any thread may call them, on outputs that do not overlap.
//
// "16 lanes" below: element i goes to lane i mod 16, each lane runs through its elements in ascending order, then the
// lanes fold as a tree: i with i+8, i+4, i+2, i+1.
#ifndef BATON_ENGINE_KERNELS_KERNEL_TABLE_H_
#define BATON_ENGINE_KERNELS_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

namespace baton::engine::kernels {

// Lanes of a vector, columns of a weight tile, rows of an activation tile.
inline constexpr int kLanes = 16;
// Elements that share one scale: of a weight row and of an activation row.
inline constexpr int kGroup = 32;
// Tokens of one attention split. Part of the numerics.
inline constexpr int kSplitTokens = 256;
// Most query rows of one attention call.
inline constexpr int kMaxQueryRows = 8;

// How a packed matrix stores its weights; see packed_matrix.h.
enum class WeightFormat : uint8_t { kQ4_1, kQ4_0, kQ5_0, kQ4_K, kQ5_K, kQ6_K, kQ8_0, kF32, kF16, kBf16 };

// One group of 32 activations of 16 rows. value = scale * q; q = round-to-nearest-even(x * (127 / max|x|)), within
// +-127; scale = max|x| / 127. A group whose maximum is not above 1e-30 is all zero.
struct alignas(64) QuantGroup {
  int8_t q[kLanes][kGroup];
  float scale[kLanes];
  // scale * sum(q), by which a weight group's minimum is multiplied.
  float scaled_sum[kLanes];
  // -8 * sum(q): takes the offset of unsigned weights out of an integer dot.
  int32_t neg8_sum[kLanes];
  // The same for the first and for the last 16 activations, within +-16,256.
  int16_t neg8_halves[kLanes][2];
};

// out[b][r][c] = dot of activation row r with weight row 16 b + c. One chain fma(float(integer dot), weight scale *
// activation scale, acc) over groups in ascending order; for kQ4_1, kQ4_K and kQ5_K a second chain fma(scaled_sum,
// minimum, acc), added once.
//   weights in the integer dot are q as packed (packed_matrix.h), less 8 for kQ4_0, 16 for kQ5_0, 128 for kQ8_0
//   kQ4_K, kQ5_K: weight scale = scale * factor and minimum = minimum scale * factor, both exact: 11 bits by 6
//   kQ6_K: weight scale = scale; integer dot = factor 0 * (dot of the first 16) + factor 1 * (dot of the last 16), of
//     weights q - 32. At most 2 * 128 * 16 * 32 * 127 = 16,646,144, below 2^24, so exact as a float.
struct QuantMatmul {
  WeightFormat format;
  int groups;              // K / 32
  int rows;                // of activations
  int col_blocks;          // of 16 weight rows
  const QuantGroup* acts;  // [ceil(rows / 16)][groups]
  const uint8_t* weights;  // first column block
  size_t block_stride;     // bytes between column blocks
  float* out;              // [col_blocks][rows][16]
};

// The same for float activations: one chain fma(x, w, acc) over k in ascending order. Formats kF32, kF16, kBf16.
struct FloatMatmul {
  WeightFormat format;
  int depth;  // K
  int rows;
  int col_blocks;
  const float* acts;  // [ceil(rows / 16)][K][16 rows]
  const uint8_t* weights;
  size_t block_stride;
  float* out;  // [col_blocks][rows][16]
};

// Causal attention of consecutive query rows of one sequence over one KV head, for all query heads of that KV head.
// With a window a row sees the last `window` positions, its own among them.
//
// A head's part of a KV block consists of vectors of 16 words. A word is two bf16 (lower half first), one f32 or two
// int8:
//   K: [head_dim / per_word][16 tokens], a word holding neighbours in head_dim
//   V: [16 / per_word][head_dim], a word holding neighbouring tokens
// A vector of int8 holds its 16 lower halves, then its 16 upper ones. Behind the vectors of K, and behind those of V,
// are 16 f32: the scale of each token, by which its integers are multiplied.
//
// A dot step is fma(low, low', fma(high, high', acc)) for bf16 (as VDPBF16PS does) and fma for f32, in ascending order.
// Each split of 256 tokens starts from zero: scores, maximum, p = 2^((score - maximum) * (scale * log2 e)) (rounded to
// bf16 for bf16), sum of p in 16 lanes, PV. Tokens that the row does not see count as p = +0, v = +0; a split is left
// out when the row sees none of it. Then the splits, which start at multiples of 256 whatever the window, fold in
// ascending order: with m the larger maximum, a = 2^((M - m) * (scale * log2 e)), b the same of m_split, each of sum
// and PV becomes fma(split, b, total * a). elementwise_cpu.h says how 2^x is computed.
//
// int8 is computed as bf16, which holds its integers exactly, except for the tokens' scales: a score is dot * K's
// scale; p enters its sum unrounded, and PV as p * V's scale, rounded to bf16.
struct AttentionCall {
  int query_rows;
  int first_position;
  int heads_per_kv;
  int head_dim;          // multiple of 16
  int window;            // 0: all positions up to the row's
  float scale;           // > 0
  const uint8_t* query;  // row r, head h at query + r * query_stride + h * head_dim elements: f32 for f32 KV, else bf16
  size_t query_stride;   // bytes
  const uint8_t* keys;   // this layer's and head's K part of block 0
  const uint8_t* values;
  size_t block_stride;  // bytes between blocks of the pool
  const int32_t* blocks;
  float* out;         // row r, head h at out + r * out_stride + h * head_dim
  size_t out_stride;  // floats
  uint8_t* scratch;   // AttentionScratchBytes
};

struct KernelTable {
  const char* name;

  // y = (x * (1 / sqrt(mean(x^2) + eps))) * weight; the squares summed by fma in 16 lanes. n: multiple of 16. y
  // may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* y);

  // Quantizes one row of 32 * groups floats into row `slot` of acts[0 .. groups).
  void (*quantize)(const float* x, int groups, QuantGroup* acts, int slot);

  // Quantizes one group of rows [0, rows) into out, rows <= 16: row r is first[16 r ..] and last[16 r ..].
  void (*quantize_tile)(const float* first, const float* last, int rows, QuantGroup& out);

  // Quantizes n floats (multiple of 32) with one scale, as a QuantGroup has it.
  void (*quantize_head)(const float* x, int n, int8_t* q, float* scale);

  void (*matmul_quant)(const QuantMatmul& call);
  void (*matmul_float)(const FloatMatmul& call);

  // y = (gate / (1 + exp(-gate))) * up, n elements, multiple of 16.
  void (*swiglu)(const float* gate, const float* up, int n, float* y);

  // GELU by tanh, which is written as a logistic function: 0.5 (1 + tanh(z)) = 1 / (1 + exp(-2 z)). With
  // t = fma(0.044715 * gate, gate * gate, gate), y = (gate / (1 + exp(-2 sqrt(2 / pi) * t))) * up. n: multiple of 16.
  void (*geglu)(const float* gate, const float* up, int n, float* y);

  // x[r * stride + i] += y[16 * r + i], for i < 16 of each row. With a stride of 16 they are arrays.
  void (*add)(float* x, size_t stride, const float* y, int rows);

  // Rotates x[16 r .. 16 r + 16) by the 16 values that lie stride * r floats behind cosine and sine: x = fma(x, cosine,
  // swap(x) * sine), where swap exchanges 2i and 2i+1, and sine is (-s, +s).
  void (*rope)(const float* cosine, const float* sine, size_t stride, float* x, int rows);

  // Rounds n floats (multiple of 16) to bf16, to nearest even.
  void (*to_bf16)(const float* x, int n, uint16_t* y);

  void (*attention_bf16)(const AttentionCall& call);
  void (*attention_int8)(const AttentionCall& call);
  void (*attention_f32)(const AttentionCall& call);

  // exp of n floats (multiple of 16): below -87 it is 0, above 88 it is exp(88).
  void (*exp)(const float* x, int n, float* y);
};

size_t AttentionScratchBytes(int heads_per_kv, int head_dim);

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512Bf16Kernels;

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_KERNEL_TABLE_H_
