// A decoder-only transformer on CPU kernels, as its ModelConfig describes it. A step is one job of the thread pool.
// Between barriers each thread owns the outputs that it writes, so results do not depend on how the work was shared.
#ifndef BATON_ENGINE_MODEL_TRANSFORMER_RUNNER_H_
#define BATON_ENGINE_MODEL_TRANSFORMER_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/host_model_runner.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/kernel_table.h"
#include "engine/kernels/thread_pool.h"
#include "engine/model/kv_writer.h"
#include "engine/model/shared_phases.h"
#include "engine/model/step_plan.h"
#include "engine/model/transformer_weights.h"

namespace baton::engine {

// Activations as matrix products read them: tiles of 16 rows, quantized, as floats or both, as the weights need.
struct Activations {
  int depth = 0;
  kernels::QuantGroup* quant = nullptr;  // [tiles][depth / 32]
  float* values = nullptr;               // [tiles][depth][16 rows]
};

class TransformerRunner final : public HostModelRunner {
 public:
  // `kv_dtype` is a result of ChooseKvDtype.
  TransformerRunner(TransformerWeights weights, KvDtype kv_dtype, const kernels::KernelTable& table,
                    std::unique_ptr<kernels::ThreadPool> pool, int max_rows);

  int32_t vocab_size() const override { return config_.vocab_size; }
  int32_t context_length() const override { return config_.context_length; }
  int32_t hidden_size() const override { return config_.hidden_size; }
  const KvLayout& kv_layout() const override { return layout_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  void SetKvPool(KvPool& pool) override;
  void ZeroRows(BlockId block, int32_t first_row) override;

  // The gate that a step yields to; outlives the runner. Null: none.
  void set_gate(StepGate* gate) { phases_.set_gate(gate); }
  void set_fingerprint(std::string fingerprint) { fingerprint_ = std::move(fingerprint); }

 private:
  // Scratch that only one thread writes.
  struct ThreadScratch {
    float* product;   // [blocks of a unit][row chunk][16]
    float* row;       // one row, the widest
    float* residual;  // [kFewRows][hidden]: the residual stream of steps of few rows
    uint8_t* attention;
    // A tile of each, for steps of few rows.
    Activations norm;
    Activations attended;
  };
  using Cursor = SharedPhases::Cursor;
  using Range = SharedPhases::Range;
  // A unit of a product's columns, for some rows; the first is a multiple of 16.
  struct Part {
    int unit;
    int row;
    int rows;
  };
  // Blocks of 16 columns of a matrix by rows of activations.
  struct Extent {
    int block;
    int blocks;
    int row;
    int rows;
  };
  struct Branch {
    const kernels::PackedMatrix& matrix;
    const Activations& acts;
    const std::vector<float>& post_norm;
  };

  void Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override;
  void ForEach(int count, absl::FunctionRef<void(int)> fn) override;

  void AllocateScratch(int max_rows);
  void RunStep(Cursor& cursor);
  void RunLayer(Cursor& cursor, int index);

  // A phase of a product: fn(Part) for `units` of columns and every chunk of rows.
  template <typename Fn>
  void ShareProduct(Cursor& cursor, int units, Fn fn);
  // Whether every thread norms all rows for itself and keeps its own copy of the residual stream.
  bool few_rows() const;
  // The rows whose residual stream a thread works on.
  Range ResidualRows(const Cursor& cursor) const;
  float* Residual(const Cursor& cursor, int row) const;

  void Embed(const Cursor& cursor);
  void AddBranch(const Cursor& cursor, const std::vector<float>& post_norm);
  const Activations& Normalize(Cursor& cursor, const std::vector<float>& weight);
  const Activations& TakeAttended(const Cursor& cursor);
  void StoreActivations(const Activations& to, int row, int column, const float* values, int count) const;
  void Product(const kernels::PackedMatrix& matrix, const Activations& acts, const Extent& at, float* out) const;
  void StoreQkv(const Cursor& cursor, int layer, const Activations& acts, const Part& part);
  void Attend(const Cursor& cursor, int layer, int item);
  // Whether products are added to the residual stream at once: there is no norm between, and one stream for all
  // threads.
  bool BranchesAddThemselves(const std::vector<float>& post_norm) const;
  void StoreBranch(const Cursor& cursor, const Branch& branch, const Part& part);
  void FeedForward(const Cursor& cursor, const TransformerLayer& layer, const Activations& acts, const Part& part);
  void StoreActivatedGroup(const Part& part, const float* values) const;
  void StoreOutputs(Cursor& cursor);
  void LogitsUnit(const Cursor& cursor, int unit);

  int rows() const { return static_cast<int>(plan_.rows.size()); }

  const TransformerWeights weights_;
  const modelfile::ModelConfig& config_;
  const kernels::KernelTable& table_;
  const KvLayout layout_;
  const size_t block_bytes_;
  std::string fingerprint_;
  // Blocks of 16 columns of q, k and v that are computed together: a whole head where heads are normed or have one
  // scale, else one block.
  const int qkv_unit_blocks_;
  StepPlan plan_;
  KvWriter kv_;

  kernels::AlignedBuffer scratch_;
  float* hidden_ = nullptr;         // [rows][hidden]: the residual stream of steps of many rows
  float* branch_ = nullptr;         // [rows][hidden]: what attention or feed-forward adds to it
  Activations norm_;                // of the residual stream
  float* attention_out_ = nullptr;  // [rows][heads * head_dim]
  Activations attended_;            // the same, as a product reads it
  Activations activated_;           // [rows][ffn]
  std::vector<ThreadScratch> threads_;
  int32_t kv_blocks_ = 0;  // 0: no pool yet
  // Outputs of the step at hand; empty where not wanted.
  absl::Span<float> logits_;
  absl::Span<float> hidden_states_;
  SharedPhases phases_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_TRANSFORMER_RUNNER_H_
