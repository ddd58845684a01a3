// Steps of decode, draws and the names of prefix blocks allocate nothing. Replaces operator new to count.
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/prefix_hash.h"
#include "engine/sampler.h"
#include "engine/testing/fake_model.h"
#include "gtest/gtest.h"

namespace {
std::atomic<int64_t> allocations{0};

void* Count(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  std::abort();
}
}  // namespace

void* operator new(std::size_t bytes) { return Count(bytes); }
void* operator new[](std::size_t bytes) { return Count(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace baton::engine {
namespace {

constexpr int32_t kSequences = 64;

SequenceSpec Spec(int32_t i) {
  SequenceSpec spec;
  spec.prompt.assign(static_cast<size_t>(20 + i), i);
  spec.sampling.max_tokens = 400;
  // Every way to choose a token.
  spec.sampling.temperature = i % 4 == 0 ? 0.0f : 1.0f;
  spec.sampling.top_p = i % 3 == 0 ? 0.9f : 1.0f;
  spec.sampling.top_k = i % 5 == 0 ? 10 : 0;
  spec.sampling.frequency_penalty = i % 7 == 0 ? 0.5f : 0.0f;
  if (i % 6 == 0) spec.sampling.logit_bias = {{.token = i, .bias = -3}};
  return spec;
}

// Computes nothing, chooses one token over and over, and always takes a step ahead.
class AheadModel final : public FakeModel {
 public:
  AheadModel() : FakeModel({}) {}

  void Submit(const StepBatch& batch, const StepOutputs& outputs) override {
    if (in_flight_ == 1) ++ahead;
    steps_[(oldest_ + in_flight_++) % 2] = {batch, outputs};
  }
  bool TakesStepAhead() const override { return in_flight_ == 1; }
  void Complete() override {
    const auto& [batch, outputs] = steps_[oldest_];
    for (size_t i = 0; i < outputs.tokens.size(); ++i) {
      outputs.tokens[i] = {.index = batch.choices[i].context.position(), .token = 1};
    }
    oldest_ = 1 - oldest_;
    --in_flight_;
  }

  int ahead = 0;

 private:
  std::pair<StepBatch, StepOutputs> steps_[2];
  size_t oldest_ = 0;
  size_t in_flight_ = 0;
};

// Counts the allocations of the steps that follow the last prompt. A buffer that is used for the first time must have
// its capacity already.
int64_t AllocationsOfSteps(int32_t block_count, FakeModel& model) {
  std::vector<uint8_t> memory(static_cast<size_t>(block_count) * model.kv_layout().block_bytes());
  HostKvPool pool(absl::MakeSpan(memory), model.kv_layout().block_bytes());
  Engine engine({.chunk_tokens = 256, .max_sequences = kSequences}, model, pool, PrefixNames({1, 2}));
  for (int32_t i = 0; i < kSequences; ++i) engine.StartPrefill(engine.Reserve(Spec(i)).value());
  for (int32_t waiting = kSequences; waiting > 0;) {
    for (const StepEvent& event : engine.Step()) waiting -= event.token && event.token->index == 0 ? 1 : 0;
  }
  const int64_t before = allocations;
  for (int step = 0; step < 300; ++step) engine.Step();
  EXPECT_TRUE(engine.HasWork());
  return allocations - before;
}

TEST(EngineStep, AllocatesNothingWhileSequencesDecodeAndTheirBlocksFill) {
  FakeModel model({});
  EXPECT_EQ(AllocationsOfSteps(2000, model), 0);
}

TEST(EngineStep, AllocatesNothingWhilePreemptingAndEvicting) {
  FakeModel model({});
  EXPECT_EQ(AllocationsOfSteps(300, model), 0);
}

TEST(EngineStep, AllocatesNothingWhileStepsAreAhead) {
  AheadModel model;
  EXPECT_EQ(AllocationsOfSteps(2000, model), 0);
  EXPECT_GT(model.ahead, 250);
}

TEST(Sampler, AllocatesNothingInItsFirstDrawHoweverDeep) {
  constexpr int32_t kVocabSize = 50'000;
  Sampler sampler(kVocabSize);
  // With equal logits the draw sorts nine tenths of the vocabulary.
  std::vector<float> logits(kVocabSize, 1.0f);
  SamplingParams params;
  params.temperature = 1.0f;
  params.top_p = 0.9f;
  const int64_t before = allocations;
  sampler.Sample(params, {}, absl::MakeSpan(logits));
  EXPECT_EQ(allocations - before, 0);
}

TEST(PrefixNames, NamingTheBlocksOfAPromptAllocatesNothing) {
  constexpr int kBlocks = 125;
  const PrefixNames names({1, 2});
  const std::vector<int32_t> tokens(kBlockTokens, 7);
  const int64_t before = allocations;
  Digest128 name = names.Root("a");
  for (int i = 0; i < kBlocks; ++i) name = names.Next(name, tokens);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_NE(name, names.Root("a"));
}

}  // namespace
}  // namespace baton::engine
