// The common part of model runners whose logits lie in host memory. A step runs in Complete, on the caller's thread and
// on the threads that the runner adds. Then samplers choose the tokens of several rows in parallel.
#ifndef BATON_ENGINE_HOST_MODEL_RUNNER_H_
#define BATON_ENGINE_HOST_MODEL_RUNNER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/model_runner.h"
#include "engine/sampler.h"

namespace baton::engine {

class HostModelRunner : public ModelRunner {
 public:
  void Submit(const StepBatch& batch, const StepOutputs& outputs) override;
  void Complete() override;

 protected:
  // Tokens are wanted of at most `max_tokens` output rows in a step.
  HostModelRunner(int32_t vocab_size, int32_t max_tokens);

  // Runs all rows of a step and writes the outputs, as StepOutputs describes them. An empty span: not wanted.
  virtual void Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) = 0;

  // The step in flight.
  const StepBatch& batch() const { return batch_; }

  // Calls fn(i) once for each i of [0, count), on any threads and in any order, and returns when all have returned.
  virtual void ForEach(int count, absl::FunctionRef<void(int)> fn) {
    for (int i = 0; i < count; ++i) fn(i);
  }

 private:
  absl::Span<float> Logits(int32_t first, int32_t count) const {
    const size_t width = static_cast<size_t>(vocab_size_);
    return {logits_.as<float>() + static_cast<size_t>(first) * width, static_cast<size_t>(count) * width};
  }
  void ChooseTokens();

  const int32_t vocab_size_;
  const int32_t max_tokens_;
  std::vector<Sampler> samplers_;
  // [max_tokens][vocab_size]: samplers overwrite them. The buffer is mapped, so that rows which no step
  // has filled take no memory: with a large vocabulary all rows would be a gigabyte.
  const kernels::AlignedBuffer logits_;

  bool in_flight_ = false;
  StepBatch batch_;
  StepOutputs outputs_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_HOST_MODEL_RUNNER_H_
