// One step as the kernels walk through it: where every row reads and writes. Sized once, filled each step.
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
    // Its KV: block of the pool, token inside.
    BlockId block;
    int32_t slot;
  };
  // Consecutive rows of one sequence, at most kernels::kMaxQueryRows, attended to together.
  struct QueryTile {
    int32_t first_row;
    int32_t row_count;
    int32_t first_position;
    const BlockId* blocks;
  };

  std::vector<Row> rows;
  std::vector<QueryTile> tiles;
  // Row whose logits go to output i.
  std::vector<int32_t> logits_rows;

  explicit StepPlan(int max_rows);

  // The spans of `batch` must outlive the step. Checks its shape: a bad batch is the engine's bug.
  void Fill(const StepBatch& batch, int32_t vocab_size, int32_t context_length);
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_STEP_PLAN_H_
