// A decoder-only transformer on a CUDA device. Submit uploads what the step needs to know and launches its kernels;
// Complete waits for them, and chooses on the host the tokens whose logits a request changes or wants to see.
//
// Where the device chooses all tokens of a step, the next one may follow at once: it stands behind the first on the
// same stream, and its rows read the tokens where the first leaves them. The stream orders all that the two share on
// the device. What the host fills and reads is there twice, and an event says when a step has ended.
//
// A decode step (one row a sequence) is launched as a graph, captured once for each bucket of rows and of attention's
// splits. Its missing rows are sequences of their own, which write to blocks that no sequence has.
//
// A step with rows of prompts says on its way which layers' KV is in place, so that a reader has most of it when the
// step ends.
//
// When the device fails in a step, the process ends (device.h).
#ifndef BATON_ENGINE_CUDA_CUDA_RUNNER_H_
#define BATON_ENGINE_CUDA_CUDA_RUNNER_H_

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cuda/cuda_memory.h"
#include "engine/cuda/device.h"
#include "engine/cuda/device_kv_pool.h"
#include "engine/cuda/forward.h"
#include "engine/cuda/step_data.h"
#include "engine/kernels/thread_pool.h"
#include "engine/model/step_plan.h"
#include "engine/model_options.h"
#include "engine/model_runner.h"
#include "modelfile/model_file.h"

namespace baton::engine::cuda {

struct CudaModelOptions {
  Weights weights = Weights::kAuto;
  // Most rows of one step: chunk budget plus running sequences. Bounds the scratch.
  int max_rows = 1024;
  // Most slices of one step; 0: as many as rows. Bounds the lists of blocks.
  int max_slices = 0;
  // Pinned memory for logits that the host looks at, and for at least one row's. Outputs beyond it take turns.
  size_t host_logits_bytes = size_t{32} << 20;
  // Launches decode steps as graphs. The bits are the same.
  bool graphs = true;
  // Takes a step ahead (ModelRunner::TakesStepAhead). The tokens are the same.
  bool steps_ahead = true;
  // Tells of layers within a step (ModelRunner::AwaitLayers).
  bool layer_events = true;
  AttentionPath attention = AttentionPath::kAuto;
  // Outlives the call. Null: nobody watches.
  LoadProgress* progress = nullptr;
};

// The KV of a model on a device: bf16, in the arrangement of kernels/params.h, which no runner of another kind has.
KvLayout CudaKvLayoutOf(const modelfile::ModelConfig& config);

class CudaRunner final : public ModelRunner {
 public:
  // Copies what it needs: `file` may be closed afterwards. The errors are those of LoadCudaWeights. The runner has no
  // fingerprint until it is set.
  static absl::StatusOr<std::unique_ptr<CudaRunner>> Load(const modelfile::ModelFile& file,
                                                          const CudaModelOptions& options,
                                                          std::shared_ptr<const Device> device);

  int32_t vocab_size() const override { return forward_->config().vocab_size; }
  int32_t context_length() const override { return forward_->config().context_length; }
  int32_t hidden_size() const override { return forward_->config().hidden_size; }
  const KvLayout& kv_layout() const override { return layout_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  MemoryAccess* memory() override { return &memory_; }
  int32_t spare_blocks() const override { return DeviceKvPool::kSpareBlocks; }
  absl::StatusOr<std::unique_ptr<KvPool>> MakeKvPool(int32_t blocks, absl::Span<uint8_t> region) override;
  // A DeviceKvPool.
  void SetKvPool(KvPool& pool) override;
  void ZeroRows(BlockId block, int32_t first_row) override;
  void Submit(const StepBatch& batch, const StepOutputs& outputs) override;
  bool TakesStepAhead() const override;
  int32_t AwaitLayers(int32_t known) override;
  void Complete() override;

  const Device& device() const { return *device_; }
  void set_fingerprint(std::string fingerprint) { fingerprint_ = std::move(fingerprint); }
  // Graphs that are held, for tests.
  size_t graphs() const { return graphs_.size(); }

 private:
  CudaRunner(std::shared_ptr<const Device> device, const CudaModelOptions& options, const KvLayout& layout,
             Stream stream);

  // A step in flight.
  struct Flight {
    StepBatch batch;
    StepOutputs outputs;
    // Whether the device draws any token, instead of taking that of the largest logit.
    bool draws = false;
    // Outputs whose logits are computed at a time.
    int head_count = 0;
    // Whether the device chooses all tokens, and nothing else is wanted.
    bool all_on_device = false;
    // For each of the outputs at hand, whether the host needs its logits.
    std::vector<bool> needs_logits;
    PinnedBuffer tokens;  // int32 [head rows]
    // Whether the step passes its marks, which may be none: it computes rows of prompts, and no graph runs it.
    bool is_marked = false;
    std::vector<LayerMark> marks;
    // The step has ended, and the copies of its first outputs.
    Event ended;
  };

  void CheckOutputs(const StepBatch& batch, const StepOutputs& outputs) const;
  // The tokens of the step before are there, and those behind them are chosen by the device.
  void CheckSources(const StepBatch& batch) const;
  static bool WantsLogits(const Flight& flight);
  // Whether the host looks at the logits of an output.
  bool NeedsLogits(const Flight& flight, size_t output) const;
  // Outputs whose logits are computed at a time; 0: nobody wants any.
  int HeadCount(const Flight& flight) const;
  // The rows of the graph that runs the step; 0: none does.
  int GraphRows(const Flight& flight) const;
  void Launch(Flight& flight);
  // Says how tokens are drawn that the device can draw, for the step's data.
  void SetSampling(Flight& flight);
  const SampleRow* SamplingFrom(const Flight& flight, int first) const {
    return flight.draws ? data_->sampling() + first : nullptr;
  }
  void RunGraph(const Flight& flight, int rows);
  // Starts the copies of what the outputs [first, first + head_count) give.
  void CopyOutputs(Flight& flight, int first);
  void CopyLogits(const Flight& flight, int count);
  void TakeHiddenStates(const Flight& flight);
  // Writes those outputs, whose copies have ended.
  void TakeOutputs(const Flight& flight, int first);
  void Choose(const Flight& flight, int first, int i, size_t sampler);
  absl::Span<float> HostLogits(int i) const;

  const std::shared_ptr<const Device> device_;
  CudaMemory memory_;
  const KvLayout layout_;
  const bool has_graphs_;
  const bool takes_steps_ahead_;
  std::string fingerprint_;
  // Destroyed last of what it works on, so that it has ended.
  std::unique_ptr<Forward> forward_;
  StepPlan plan_;
  std::optional<StepData> data_;
  // f32 [host_logit_rows_][logits stride] and [max rows][hidden size]. Of the last step in flight: no other one is
  // behind a step that needs them.
  PinnedBuffer host_logits_;
  PinnedBuffer host_hidden_;
  int host_logit_rows_ = 0;
  // The first `in_flight_` of them are, from `oldest_` on.
  std::array<Flight, 2> flights_;
  size_t oldest_ = 0;
  size_t in_flight_ = 0;
  // By rows, splits, and whether tokens are drawn.
  std::map<std::tuple<int, int, bool>, Graph> graphs_;
  Stream stream_;

  DeviceKvPool* pool_ = nullptr;
  // Samplers choose in parallel, on the threads of the pool.
  kernels::ThreadPool threads_;
  std::vector<Sampler> samplers_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_CUDA_RUNNER_H_
