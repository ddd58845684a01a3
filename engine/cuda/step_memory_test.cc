// What a step of the runner asks of the driver beside its kernels. They do nothing here: the driver is a fake.
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "engine/cuda/cuda_runner.h"
#include "engine/cuda/testing/fake_driver.h"
#include "engine/model/synthetic_model.h"
#include "gtest/gtest.h"

namespace baton::engine::cuda {
namespace {

constexpr int kRows = 48;

class StepMemoryTest : public testing::Test {
 protected:
  explicit StepMemoryTest(int layers = 2, bool layer_events = true) {
    const void* const images[] = {"an image"};
    device_ = *Device::Open(FakeDriverApi(), 0, images);
    const auto file = MakeSyntheticModel({.seed = 5, .layers = layers, .vocab_size = 80});
    // Logits of two rows.
    auto runner = CudaRunner::Load(*file,
                                   {.max_rows = kRows,
                                    .max_slices = 2,
                                    .host_logits_bytes = 2 * 80 * sizeof(float),
                                    .graphs = false,
                                    .layer_events = layer_events},
                                   device_);
    BATON_CHECK(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    auto pool = runner_->MakeKvPool(BlocksForTokens(runner_->context_length()), {});
    BATON_CHECK(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    runner_->SetKvPool(*pool_);
    blocks_.resize(static_cast<size_t>(pool_->block_count()));
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  // The last rows of the context, all of which have outputs.
  void Run(const std::vector<TokenChoice>& choices, const StepOutputs& outputs) {
    const std::vector<int32_t> tokens(kRows, 7);
    const SequenceSlice slice{.row_count = kRows,
                              .first_position = runner_->context_length() - kRows,
                              .blocks = blocks_,
                              .group_stride = static_cast<int32_t>(blocks_.size()),
                              .output_rows = OutputRows::kAll,
                              .first_output = 0};
    taken_ = FakeDriver().taken;
    waits_ = FakeDriver().waits;
    runner_->Run(
        {.tokens = tokens, .slices = absl::MakeConstSpan(&slice, 1), .output_count = kRows, .choices = choices},
        outputs);
    taken_ = FakeDriver().taken - taken_;
    waits_ = FakeDriver().waits - waits_;
  }

  std::shared_ptr<const Device> device_;
  std::unique_ptr<CudaRunner> runner_;
  std::unique_ptr<KvPool> pool_;
  std::vector<BlockId> blocks_;
  // In the last step.
  int taken_ = 0;
  int waits_ = 0;
};

TEST_F(StepMemoryTest, AStepTakesNoMemoryAndWaitsForItsEndAlone) {
  const SamplingParams greedy;
  const std::vector<TokenChoice> choices(kRows, {.sampling = &greedy});
  std::vector<OutputToken> tokens(kRows);
  Run(choices, {.tokens = absl::MakeSpan(tokens)});
  EXPECT_EQ(taken_, 0);
  EXPECT_EQ(waits_, 0) << "streams; the end is an event";
  EXPECT_EQ(FakeDriver().pageable_copies, 0);
}

TEST_F(StepMemoryTest, HiddenStatesAndLogitsComeByPinnedMemory) {
  std::vector<float> hidden(static_cast<size_t>(kRows * runner_->hidden_size()));
  Run({}, {.hidden_states = absl::MakeSpan(hidden)});
  EXPECT_EQ(taken_, 0);
  EXPECT_EQ(waits_, 0);
  std::vector<float> logits(static_cast<size_t>(kRows * runner_->vocab_size()));
  Run({}, {.logits = absl::MakeSpan(logits)});
  EXPECT_EQ(taken_, 0);
  // Two rows at a time, the first two with the step itself.
  EXPECT_EQ(waits_, kRows / 2 - 1);
  EXPECT_EQ(FakeDriver().pageable_copies, 0);
}

class StepMarksTest : public StepMemoryTest {
 protected:
  explicit StepMarksTest(bool layer_events = true) : StepMemoryTest(10, layer_events) {}

  // How many layers had stored their KV when each event was recorded.
  static std::vector<int> LayersAtEvents() {
    std::vector<int> layers;
    int stored = 0;
    for (const std::string& work : FakeDriver().work) {
      if (work == "store_qkv") ++stored;
      if (work == "event") layers.push_back(stored);
    }
    return layers;
  }
  void Submit(int32_t rows, RowClass row_class) {
    tokens_.assign(static_cast<size_t>(rows), 7);
    slice_ = {.row_count = rows,
              .blocks = blocks_,
              .group_stride = static_cast<int32_t>(blocks_.size()),
              .row_class = row_class};
    FakeDriver().work.clear();
    runner_->Submit({.tokens = tokens_, .slices = absl::MakeConstSpan(&slice_, 1)}, {});
  }

  std::vector<int32_t> tokens_;
  SequenceSlice slice_;
};

TEST_F(StepMarksTest, AStepOfAPromptTellsOfItsLayersInEightParts) {
  Submit(kRows, RowClass::kPrefill);
  // The last event is the step's end.
  EXPECT_EQ(LayersAtEvents(), (std::vector<int>{1, 2, 3, 5, 6, 7, 8, 10}));
  std::vector<int32_t> told;
  for (int32_t known = 0; known < 10; told.push_back(known)) known = runner_->AwaitLayers(known);
  EXPECT_EQ(told, (std::vector<int32_t>{1, 2, 3, 5, 6, 7, 8, 10}));
  runner_->Complete();
}

class StepWithoutMarksTest : public StepMarksTest {
 protected:
  StepWithoutMarksTest() : StepMarksTest(/*layer_events=*/false) {}
};

TEST_F(StepWithoutMarksTest, AStepOfAPromptTellsOfNothingBeforeItsEnd) {
  Submit(kRows, RowClass::kPrefill);
  EXPECT_EQ(LayersAtEvents(), std::vector<int>{10});
  EXPECT_EQ(runner_->AwaitLayers(0), 10);
  runner_->Complete();
}

TEST_F(StepMarksTest, AStepWithoutAPromptTellsOfNothingBeforeItsEnd) {
  Submit(kRows, RowClass::kPrefill);
  runner_->Complete();
  Submit(1, RowClass::kDecode);
  EXPECT_EQ(LayersAtEvents(), std::vector<int>{10});
  EXPECT_EQ(runner_->AwaitLayers(0), 10);
  runner_->Complete();
  // It has the place of the first step, whose events say nothing of it.
  runner_->Submit({}, {});
  EXPECT_EQ(runner_->AwaitLayers(0), 10);
  runner_->Complete();
}

}  // namespace
}  // namespace baton::engine::cuda
