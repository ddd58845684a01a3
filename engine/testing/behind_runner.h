// A model runner whose steps run behind its caller, as a device's do: on a thread of its own.
#ifndef BATON_ENGINE_TESTING_BEHIND_RUNNER_H_
#define BATON_ENGINE_TESTING_BEHIND_RUNNER_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/check.h"
#include "engine/model_runner.h"

namespace baton::engine {

// A step begins no sooner than its Complete, so a caller that reads outputs or KV too early finds what was there
// before.
class BehindRunner final : public ModelRunner {
 public:
  // `model` outlives the runner.
  explicit BehindRunner(ModelRunner& model) : model_(model) {}

  int32_t vocab_size() const override { return model_.vocab_size(); }
  int32_t context_length() const override { return model_.context_length(); }
  int32_t hidden_size() const override { return model_.hidden_size(); }
  const KvLayout& kv_layout() const override { return model_.kv_layout(); }
  const std::string& fingerprint() const override { return model_.fingerprint(); }
  void SetKvPool(KvPool& pool) override { model_.SetKvPool(pool); }
  void ZeroRows(BlockId block, int32_t first_row) override { model_.ZeroRows(block, first_row); }

  void Submit(const StepBatch& batch, const StepOutputs& outputs) override {
    BATON_CHECK(!thread_.joinable()) << "one step at a time";
    for (OutputToken& token : outputs.tokens) token = {.token = -1};
    may_begin_ = std::make_unique<absl::Notification>();
    thread_ = std::thread([this, batch, outputs] {
      may_begin_->WaitForNotification();
      model_.Run(batch, outputs);
    });
    ++submitted_;
  }
  void Complete() override {
    may_begin_->Notify();
    thread_.join();
    ++completed_;
  }

  int submitted() const { return submitted_; }
  int completed() const { return completed_; }

 private:
  ModelRunner& model_;
  std::unique_ptr<absl::Notification> may_begin_;
  std::thread thread_;
  int submitted_ = 0;
  int completed_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_BEHIND_RUNNER_H_
