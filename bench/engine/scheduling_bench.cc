#include "bench/engine/scheduling_bench.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "engine/engine.h"
#include "engine/testing/fake_model.h"

namespace baton::bench {
namespace {

constexpr int kPromptTokens = 32;
constexpr int kSmallVocabulary = 64;
constexpr int kWarmSteps = 20;
// A fake model is slow with the vocabulary of a real one.
constexpr int kMaxSampledSteps = 50;
// Every vocabulary has these first ids.
constexpr int kPromptIds = 60;

// A fake model that measures its own time.
class TimedModel final : public engine::FakeModel {
 public:
  explicit TimedModel(int vocab_size) : FakeModel({.vocab_size = vocab_size}) {}

  void Forward(const engine::StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override {
    const TimeNs begin = MonotonicClock().Now();
    FakeModel::Forward(batch, logits, hidden_states);
    forward_ns_ = MonotonicClock().Now() - begin;
  }

  // Time of the last step.
  int64_t forward_ns() const { return forward_ns_; }

 private:
  int64_t forward_ns_ = 0;
};

std::vector<double> StepMicroseconds(int sequences, int steps, int vocab_size) {
  TimedModel model(vocab_size);
  const int max_tokens = steps + kWarmSteps + sequences + 2;
  const int blocks = sequences * (BlocksForTokens(kPromptTokens + max_tokens) + 1);
  std::vector<uint8_t> memory(static_cast<size_t>(blocks) * model.kv_layout().block_bytes());
  HostKvPool pool(absl::MakeSpan(memory), model.kv_layout().block_bytes());
  engine::Engine engine({.chunk_tokens = 256, .max_sequences = sequences}, model, pool, engine::PrefixNames({1, 2}));
  for (int i = 0; i < sequences; ++i) {
    engine::SequenceSpec spec;
    spec.prompt.assign(kPromptTokens, i % kPromptIds);
    spec.sampling.max_tokens = max_tokens;
    spec.sampling.ignore_eos = true;
    engine.StartPrefill(engine.Reserve(std::move(spec)).value());
  }
  // Steps until every prompt has been computed.
  while (engine.Load().pending_prompt_tokens > 0) engine.Step();
  for (int step = 0; step < kWarmSteps; ++step) engine.Step();
  std::vector<double> times_us;
  for (int step = 0; step < steps; ++step) {
    const TimeNs begin = MonotonicClock().Now();
    const size_t events = engine.Step().size();
    const int64_t step_ns = MonotonicClock().Now() - begin;
    BATON_CHECK(events == static_cast<size_t>(sequences)) << events;
    times_us.push_back(static_cast<double>(step_ns - model.forward_ns()) / 1e3);
  }
  std::sort(times_us.begin(), times_us.end());
  return times_us;
}

Figure Measure(const SchedulingOptions& options, int steps, int vocab_size, const char* what) {
  const std::vector<double> times_us = StepMicroseconds(options.sequences, steps, vocab_size);
  return {.part = "scheduling",
          .name = absl::StrCat(what, ", ", options.sequences, " sequences"),
          .parameters = {{"sequences", options.sequences}, {"vocab_size", vocab_size}},
          .value = times_us[times_us.size() / 2],
          .best = times_us.front(),
          .unit = "us/step"};
}

}  // namespace

std::vector<Figure> BenchScheduling(const SchedulingOptions& options) {
  return {Measure(options, options.steps, kSmallVocabulary, "step"),
          Measure(options, std::min(options.steps, kMaxSampledSteps), options.vocab_size, "with greedy sampling")};
}

}  // namespace baton::bench
