// A step as the kernels need it: where every row reads and writes. It is sized once and filled for each step.
#ifndef BATON_ENGINE_MODEL_STEP_PLAN_H_
#define BATON_ENGINE_MODEL_STEP_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/kv_layout.h"
#include "engine/model_runner.h"

namespace baton::engine {

struct StepPlan {
  struct Row {
    int32_t token;
    int32_t position;
    // The place of its KV inside each of its blocks, in tokens.
    int32_t slot;
  };
  // Consecutive rows of one sequence, at most kernels::kMaxQueryRows, attended to together.
  struct QueryTile {
    int32_t first_row;
    int32_t row_count;
    int32_t first_position;
    // The blocks of layer group 0; those of group g lie g * group_stride further.
    const BlockId* blocks;
    int32_t group_stride;
  };

  std::vector<Row> rows;
  // Blocks of the pool that rows are written to: [group][max_rows].
  std::vector<BlockId> row_blocks;
  std::vector<QueryTile> tiles;
  // The row of output i.
  std::vector<int32_t> output_rows;

  StepPlan(int max_rows, const KvGroups& kv_groups);

  // The block that a row writes in layer group `group`.
  BlockId& RowBlock(int group, int row) {
    return row_blocks[static_cast<size_t>(group) * max_rows_ + static_cast<size_t>(row)];
  }
  BlockId RowBlock(int group, int row) const {
    return row_blocks[static_cast<size_t>(group) * max_rows_ + static_cast<size_t>(row)];
  }

  // The spans of `batch` must outlive the step. CHECKs the shape of the batch: a bad one is the engine's bug.
  void Fill(const StepBatch& batch, int32_t vocab_size, int32_t context_length);

 private:
  void CheckSlice(const SequenceSlice& slice, int32_t context_length) const;

  const size_t max_rows_;
  const KvGroups groups_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_STEP_PLAN_H_
