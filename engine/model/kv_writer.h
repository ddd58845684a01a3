// Writes q, k and v of a step's rows to where attention reads them: q into a buffer of the step, k and v into the
// blocks of the pool. RoPE rotates q and k first. AttentionCall describes the layouts.
//
// Any thread may store any part of any row after PrepareRotation of the row. Each part is stored once per layer.
#ifndef BATON_ENGINE_MODEL_KV_WRITER_H_
#define BATON_ENGINE_MODEL_KV_WRITER_H_

#include <cstdint>
#include <vector>

#include "common/kv_layout.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/kernel_table.h"
#include "engine/model/step_plan.h"
#include "modelfile/model_file.h"

namespace baton::engine {

class KvWriter {
 public:
  // Columns [column, column + width) of q, k or v, of rows [row, row + rows). The width is 16 or head_dim; k and v in
  // int8 need head_dim.
  struct Part {
    int layer;
    int row;
    int rows;
    int column;
    int width;
  };

  // The arguments outlive the writer. At most `max_rows` rows per step.
  KvWriter(const modelfile::ModelConfig& config, const KvLayout& layout, const kernels::KernelTable& table,
           const StepPlan& plan, int max_rows);

  void SetPool(uint8_t* base) { pool_ = base; }

  // Prepares sines and cosines of a row of the plan.
  void PrepareRotation(int row);

  // Asks for the lines of the pool that StoreKey, or StoreValue, is about to write.
  void Prefetch(const Part& part, bool value) const;

  // y is [rows][width], as the projections give it. For q and k it is rotated in place.
  void StoreQuery(const Part& part, float* y);
  void StoreKey(const Part& part, float* y);
  void StoreValue(const Part& part, const float* y);

  // Zeroes what the block's rows from `first_row` on hold of all layers of its group.
  void ZeroRows(BlockId block, int32_t first_row);

  // A row's q from `head` on, and the bytes between rows.
  const uint8_t* Query(int row, int head) const;
  size_t query_stride() const { return query_stride_; }
  // Group of layers whose blocks a layer's KV is in.
  int GroupOf(int layer) const { return places_[static_cast<size_t>(layer)].group; }
  // A layer's and KV head's parts of block 0.
  const uint8_t* Keys(int layer, int kv_head) const { return HeadPart(layer, false, kv_head); }
  const uint8_t* Values(int layer, int kv_head) const { return HeadPart(layer, true, kv_head); }

 private:
  // The rotations (RoPE) of q and k, on layers that see everything and on those that slide.
  struct Rope {
    std::vector<float> inverse_frequency;  // f32, [head_dim / 2]
    kernels::AlignedBuffer cosine;         // f32 [rows][head_dim], each value twice
    kernels::AlignedBuffer sine;           // f32 [rows][head_dim], (-s, +s)
  };

  Rope MakeRope(float theta, float scaling_factor, int max_rows) const;
  void Rotate(const Part& part, float* y) const;
  // The scale of a token in a head's part of an int8 block.
  float* Scale(uint8_t* head, int slot) const;
  void ZeroKey(uint8_t* head, int slot) const;
  void ZeroValue(uint8_t* head, int slot) const;
  uint8_t* HeadPart(int layer, bool value, int head) const;
  // Calls fn(i, head's part of the row's block, slot in it) for every row, the part's i-th.
  template <typename Fn>
  void ForRows(const Part& part, bool value, Fn fn) const;

  const modelfile::ModelConfig& config_;
  const KvLayout& layout_;
  const kernels::KernelTable& table_;
  const StepPlan& plan_;
  const std::vector<KvLayout::Place> places_;  // [layers]
  const size_t block_bytes_;
  const bool is_f32_;
  const size_t query_stride_;
  Rope full_rope_, sliding_rope_;
  kernels::AlignedBuffer query_;  // [rows][heads * head_dim], f32 beside f32 KV, else bf16
  uint8_t* pool_ = nullptr;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_KV_WRITER_H_
