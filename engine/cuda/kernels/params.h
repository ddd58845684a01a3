// The kernels of the CUDA engine: one struct of parameters for each, passed by value. Host code and kernels share this
// file, which needs no header of CUDA.
//
// Numerics, which the fingerprint names ("cuda-sm90-bf16-v1"). Activations and weights enter products as bf16, rounded
// to nearest even; sums, the residual stream and norms are f32. A row's bits depend on its own sequence alone, not on
// how many rows a step has nor on how they are shared: there is one row class, and prefill and decode compute the same.
//   Product: mma.sync.m16n8k16 (bf16 in, f32 out). K is cut into splits of kDepthSplit elements, at its multiples. Each
//     split is one chain of mma over k in ascending order that starts from zero; the splits are added to zero in
//     ascending order with f32 adds. Weights are the 16-row operand, activations the 8-column one. Two mma take a block
//     of kDepthBlock elements: element 8 t + 4 j + 2 h + e of the block (t < 4; j, h, e < 2) is element 2 t + 8 h + e
//     of the j-th mma's 16, so that 8 neighbours lie in one lane.
//   Quantized weights: value = bf16(fma(scale, q, minimum)), so a quantized matrix and the bf16 matrix of its values
//     give the same bits. Scale and minimum are f32 products of an f16 and an int8 (Matrix), which are exact.
//   FP8 weights: value = bf16(scale * e), the product rounded to f32 first.
//   Attention: splits of kSplitTokens tokens at multiples of it, whatever the window. In each split from zero: scores
//     by mma over head_dim in ascending order (element 4 t + 2 h + e of 16 is element 2 t + 8 h + e of an mma's),
//     maximum (of these and -FLT_MAX), p = exp2((score - maximum) * (scale * log2 e)) by ex2.approx.ftz. Sum of the
//     unrounded p: in each quarter of the split's tokens lane i mod 16 adds in ascending order, then the tree 8-4-2-1;
//     the quarters are added in ascending order. PV by mma with p rounded to bf16, over all tokens of the split in
//     ascending order. Tokens that the row does not see count as p = +0: they add nothing, so that kernels leave them
//     out or take v = +0 for them as their tiles come out (but a v that is not finite may spoil the rows of its own
//     sequence that share a tile with a row that sees it). Splits that the row does not see at all are left out. The
//     splits fold in ascending order: with m the larger maximum, a = exp2((M - m) * (scale * log2 e)) and b the same of
//     the split's maximum, sum and PV become fma(split, b, total * a). The output is bf16(PV * (1 / sum)).
//   Reductions of norms: fma of squares in 128 lanes (element i in lane i / 4 mod 128, ascending), then the tree
//     64-32-16-8-4-2-1; of a head (store_qkv) in 32 lanes (i mod 32, ascending), then the tree 16-8-4-2-1. Division and
//     square root are rounded to nearest.
//   exp(x) of the activations is exp2(x * log2 e) by ex2.approx.ftz, x at most 88.
//   A NaN that is rounded to bf16 becomes 0x7fff.
//
// Every pointer is an address of the device, 16-byte aligned. Launch dimensions stand beside each struct, and launch.h
// computes them; a block has kThreads threads unless the comment says another number.
#ifndef BATON_ENGINE_CUDA_KERNELS_PARAMS_H_
#define BATON_ENGINE_CUDA_KERNELS_PARAMS_H_

#include <cstddef>
#include <cstdint>

namespace baton::engine::cuda {

inline constexpr int kThreads = 128;
// Tokens of one attention split, as on the CPU. Part of the numerics.
inline constexpr int kSplitTokens = 256;
// Elements of K in one split of a product. Part of the numerics.
inline constexpr int kDepthSplit = 256;
// Elements that share a pair of f16, and those that do where factors of int8 refine it.
inline constexpr int kGroup = 32;
inline constexpr int kSuperGroup = 256;
// Elements of FP8 that share an f32.
inline constexpr int kFp8Group = 128;
// Elements of K that two mma take. Part of the numerics.
inline constexpr int kDepthBlock = 32;
// kBlockTokens of common/kv_layout.h, which kernels do not include.
inline constexpr int kPageTokens = 16;
// Words of 16 bytes that a thread of "digest" takes, and a CTA. How a block is cut is no part of a digest.
inline constexpr int kDigestLoads = 8;
inline constexpr int kDigestWords = kThreads * kDigestLoads;
// Odd numbers with bits all over. Part of a digest.
inline constexpr uint64_t kDigestStep = 0x9e3779b97f4a7c15;
inline constexpr uint64_t kDigestFactor1 = 0xbf58476d1ce4e5b9;
inline constexpr uint64_t kDigestFactor2 = 0x94d049bb133111eb;

using Bf16 = uint16_t;

enum class WeightFormat : int32_t {
  // bf16 [n][k].
  kBf16,
  // int8 [n][k].
  kInt8,
  // Nibbles, 0 to 15, [n][k / 2]: byte i holds element 2i in its lower half and 2i + 1 in its upper half.
  kInt4,
  // FP8 [n][k]: a sign, 4 bits of exponent, 3 of mantissa (E4M3). 0x7f and 0xff, its NaN, do not occur.
  kFp8,
};

// Elements that share a pair of factors; 0: the format has none.
constexpr int ElementsOfFactors(WeightFormat format) {
  return format == WeightFormat::kInt8 ? 16 : format == WeightFormat::kInt4 ? 32 : 0;
}

// Scales of a row of FP8. The last may be of fewer elements.
constexpr int32_t Fp8ScalesOfRow(int32_t k) { return (k + kFp8Group - 1) / kFp8Group; }

// A weight matrix of n rows and k columns. k is a multiple of 32, and of 256 where it has `factors`; n is a multiple of
// 16. In kInt8 and kInt4 an element's scale is the lower half of its f16 pair times the lower int8 of its pair of
// factors, and its minimum is the product of the upper ones.
struct Matrix {
  const void* values;
  // [n][k / 32], or [n][k / 256] where there are `factors`. Of kFp8 the bits of f32 from 0 to 7e35,
  // [n][Fp8ScalesOfRow(k)]. Null for kBf16.
  const uint32_t* scales;
  // [n][k / ElementsOfFactors]. Null: the factors of every element are `factor`.
  const uint16_t* factors;
  WeightFormat format;
  int32_t n;
  int32_t k;
  uint16_t factor;
};

// residual[row] = embedding[t] * scale, over k = hidden, where t is tokens[row], or chosen[~tokens[row]] where that is
// negative. Kernel "embed"; grid {rows}.
struct EmbedParams {
  Matrix embedding;
  const int32_t* tokens;
  const int32_t* chosen;  // by the step before
  float* residual;        // [rows][k]
  float scale;
};

// Adds a branch to the residual stream, then norms the stream. Kernel "add_norm"; grid {rows}.
//   row r = source ? source[i] : i, for output row i
//   with a branch: residual[r] += post_weight ? norm(branch[r]) * post_weight : branch[r]   (never beside `source`)
//   out[i] = bf16(norm(residual[r]) * weight), out_f32[i] the same unrounded; each is left out where null
//   norm(x) = x * (1 / sqrt(mean(x^2) + epsilon))
struct AddNormParams {
  float* residual;           // [rows][width]
  const float* branch;       // [rows][width] or null
  const float* post_weight;  // [width] or null
  const float* weight;       // [width]
  const int32_t* source;     // [rows] or null
  Bf16* out;                 // [rows][width] or null
  float* out_f32;            // [rows][width] or null
  int32_t width;             // multiple of 32
  float epsilon;
};

// out[row][c] = dot(acts[row], weights[c]). Kernels "product_bf16", "product_int8", "product_int4", "product_fp8" for
// many rows and "product_few_bf16", ... for few (kFewRows at best; more read the weights again): the same bits, other
// shapes. ProductLaunch and ProductFewLaunch give the launch.
struct ProductParams {
  Matrix weights;
  const Bf16* acts;  // [rows][k]
  float* out;        // [rows][out_stride], from its column 0
  int32_t rows;
  int32_t out_stride;
};

// Norms and rotates q and k, and writes q for attention and k, v into the pool. Kernel "store_qkv"; grid {rows,
// heads + 2 * kv_heads}, 32 threads.
//   RoPE: element i of a head's first half pairs with i + head_dim / 2: x0' = fma(x0, cos, -(x1 * sin)),
//   x1' = fma(x1, cos, x0 * sin). Where `rope_neighbours` is set, element 2i pairs with 2i + 1.
struct StoreQkvParams {
  const float* qkv;           // [rows][(heads + 2 * kv_heads) * head_dim]
  const float* query_norm;    // [head_dim] or null
  const float* key_norm;      // [head_dim] or null
  const float* rotation;      // [rows][head_dim / 2] pairs (cos, sin)
  Bf16* query;                // [rows][heads * head_dim]
  uint8_t* pool;              // this layer's K part of block 0
  const int32_t* row_blocks;  // [rows]: the block of each row in this layer's group
  const int32_t* row_slots;   // [rows]: the token of the row in its block
  size_t block_bytes;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;  // multiple of 16, at most 256
  int32_t rope_neighbours;
  float epsilon;
};
// Inside a block a layer has K [kv_heads][kBlockTokens][head_dim] and then V of the same shape, both bf16.

// Consecutive rows of one sequence.
struct QueryTile {
  int32_t first_row;
  int32_t row_count;
  int32_t first_position;
  // Index in `blocks` of the sequence's first block in group 0.
  int32_t first_block;
  int32_t group_stride;
};

// Causal attention over paged KV; GQA heads of one KV head are packed into the rows of a CTA: a small tile has at most
// 16 / heads_per_kv rows (at least 1; heads_per_kv is at most 16), a large one 64 / heads_per_kv. With a window a row
// sees the last `window` positions, its own among them.
//   Kernel "attention_prefill": a CTA goes through all splits of a large tile; grid {tiles, kv_heads}.
//   Kernel "attention_decode": the same of a small tile.
//   Kernel "attention_split", grid {tiles, kv_heads, splits}, writes each split's maximum, sum and PV of a small tile
//   to `partial`, and "attention_fold", grid {rows, heads}, folds them. All ways give the same bits.
struct AttentionParams {
  const Bf16* query;    // [rows][heads * head_dim]
  const uint8_t* pool;  // this layer's K part of block 0
  const int32_t* blocks;
  const QueryTile* tiles;
  Bf16* out;  // [rows][heads * head_dim]
  // [rows][heads][splits][head_dim + 2]: PV, then maximum and sum; used by splits alone. Split i of a row lies at i mod
  // `splits`.
  float* partial;
  size_t block_bytes;
  const int32_t* row_positions;  // [rows], for "attention_fold"
  int32_t group;                 // of layers
  int32_t splits;                // most splits of any tile, from the first that its rows see to the last
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t window;  // 0: all
  float scale;
};

// out = bf16(act(gate) * up): silu(x) = x / (1 + exp(-x)), or GELU by tanh, written as the logistic function that
// kernels/kernel_table.h gives. Kernel "activate"; grid {rows, ceil(ffn / 256)}.
struct ActivateParams {
  const float* gate_up;  // [rows][2 * ffn]: gate, then up
  Bf16* out;             // [rows][ffn]
  int32_t ffn;           // multiple of 32
  int32_t gelu;
};

// Zeroes rows [first_row, kBlockTokens) of a block, K and V of all layers. Kernel "zero_rows"; grid {layers of a group,
// 2 * kv_heads}.
struct ZeroRowsParams {
  uint8_t* block;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t first_row;
};

// The token of the greatest logit, the lowest id among equals. A NaN counts as less than all. Kernel "argmax"; grid
// {rows}, 1024 threads.
struct ArgmaxParams {
  const float* logits;  // [rows][vocab]
  int32_t* tokens;      // [rows]
  int32_t vocab;
};

struct SampleRow {
  uint64_t seed;
  uint32_t position;  // of the output
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
};

// Steps 6 to 9 of engine/sampler.h: the token that the CPU's sampler draws of these logits, by the same bits. What its
// earlier steps change in a row (bias, penalties, a grammar's mask) is changed already. Kernel "sample"; grid {rows},
// 1024 threads.
struct SampleParams {
  const float* logits;    // [rows][vocab]
  const SampleRow* rows;  // [rows]
  int32_t* tokens;        // [rows]
  int32_t vocab;
};

// The sums of which a block's digest is made (engine/cuda/block_digest.h). Kernel "digest"; grid {ceil(words /
// kDigestWords)}, of which CTA c takes words [c * kDigestWords, (c + 1) * kDigestWords), as far as they are there.
//   mix(v): v = (v ^ v >> 30) * kDigestFactor1, then v = (v ^ v >> 27) * kDigestFactor2, then v ^ v >> 31
//   Word i, of the halves a and b: x = mix(a + (i + 1) * kDigestStep), y = mix(b ^ x), z = (x ^ y) * kDigestFactor1.
//   Its terms are y and z ^ z >> 32. sums[c] has the sum of the first and that of the second terms of the CTA's words.
//   All is modulo 2^64.
struct DigestParams {
  const uint64_t* block;  // [words][2]
  uint64_t* sums;         // [grid][2]
  int32_t words;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_PARAMS_H_
