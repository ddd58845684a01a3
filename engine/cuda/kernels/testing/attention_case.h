// One sequence's queries and paged KV, for the tests of attention.
#ifndef BATON_ENGINE_CUDA_KERNELS_TESTING_ATTENTION_CASE_H_
#define BATON_ENGINE_CUDA_KERNELS_TESTING_ATTENTION_CASE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "engine/cuda/kernels/testing/kernel_device.h"

namespace baton::engine::cuda {

struct AttentionShape {
  int head_dim;
  int heads;
  int kv_heads;
  int tokens;
  int window = 0;
  // Groups of layers, of which the last is looked at.
  int groups = 1;
  // Of the queries' elements.
  float limit = 2.0f;
  float scale = 0.125f;
};

// The kernels that compute attention: "attention_prefill", "attention_decode", or "attention_split" with its fold.
enum class AttentionWay : uint8_t { kPrefill, kDecode, kSplits };

// Rows at consecutive positions.
struct QueryRange {
  int first;
  int rows;
};

// Blocks lie in random order in the pool, each with two layers, of which the second is looked at. Slots without a token
// hold NaN. Outputs are [rows][heads * head_dim].
class AttentionCase {
 public:
  AttentionCase(const AttentionShape& shape, RandomSource& random);

  std::vector<Bf16> Prefill(int first, int rows) { return Run(AttentionWay::kPrefill, {{first, rows}}); }
  std::vector<Bf16> Run(AttentionWay way, const std::vector<QueryRange>& ranges);

  // What "attention_split" leaves of one row: [heads][splits][head_dim + 2].
  std::vector<float> Partial(int position);

  // In double, from the bf16 operands: the outputs, and beside each the same mean of the values' magnitudes.
  struct Means {
    std::vector<float> values;
    std::vector<float> magnitudes;
  };
  Means Softmax(int first, int rows) const;
  // The CPU's attention over f32 KV.
  std::vector<float> OnCpu(int first, int rows) const;

  void SetQuery(int token, int head, int d, Bf16 x);
  void SetKey(int token, int kv_head, int d, Bf16 x);
  // Tokens outside [first, last] become NaN, and pages without any other have no block.
  void Forget(int first, int last);
  void Remember();

  std::string Name() const;

 private:
  void LaunchKernels(AttentionWay way, const AttentionParams& params, int rows, int tiles);
  int heads_per_kv() const { return shape_.heads / shape_.kv_heads; }
  size_t block_elements() const {
    return 2 * 2 * static_cast<size_t>(shape_.kv_heads) * kPageTokens * static_cast<size_t>(shape_.head_dim);
  }
  // Where a token's element lies in the pool.
  size_t Slot(int token, int kv_head, int d, bool value) const;
  float Query(int token, int head, int d) const;

  const AttentionShape shape_;
  std::vector<int32_t> blocks_;
  std::vector<Bf16> query_;  // [tokens][heads][head_dim]
  std::vector<Bf16> keys_;   // [tokens][kv_heads][head_dim]
  std::vector<Bf16> values_;
  std::vector<Bf16> pool_;
  // As the device has them.
  std::vector<int32_t> table_;
  std::vector<Bf16> present_pool_;
  // Of the last run in splits, for Partial: other runs leave parts of it unwritten.
  bool keeps_partial_ = false;
  std::vector<float> partial_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_TESTING_ATTENTION_CASE_H_
