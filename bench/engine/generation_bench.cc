#include "bench/engine/generation_bench.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/load/workload.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/process_memory.h"
#include "engine/engine.h"
#include "engine/kernels/aligned_buffer.h"

namespace baton::bench {
namespace {

// Tokens of each step that fills the contexts of decode streams. Each stream has one row more.
constexpr int kPrefillRows = 512;

int BlocksEach(const KvGroups& groups, int tokens, int chunk_tokens) {
  return groups.MostBlocks(tokens, chunk_tokens) + groups.count();
}

// A pool where the runner computes; in `memory` if that is the host's.
std::unique_ptr<KvPool> MakePool(engine::ModelRunner& runner, int blocks, engine::kernels::AlignedBuffer& memory) {
  absl::StatusOr<std::unique_ptr<KvPool>> pool = runner.MakeKvPool(blocks, {});
  BATON_CHECK(pool.ok()) << pool.status();
  if (*pool != nullptr) return *std::move(pool);
  const size_t block_bytes = runner.kv_layout().block_bytes();
  memory = engine::kernels::AlignedBuffer(static_cast<size_t>(blocks) * block_bytes);
  return std::make_unique<HostKvPool>(absl::MakeSpan(memory.data(), memory.bytes()), block_bytes);
}

// An engine with just the blocks that it needs, and prompts that no prefix cache can know.
class Session {
 public:
  Session(engine::ModelRunner& runner, int sequences, int tokens_each, int chunk_tokens, uint64_t seed)
      : runner_(runner),
        seed_(seed),
        blocks_(sequences * BlocksEach(runner.kv_layout().groups(), tokens_each, chunk_tokens)),
        pool_(MakePool(runner, blocks_, kv_)),
        engine_({.chunk_tokens = chunk_tokens, .max_sequences = sequences, .prefix_cache = false}, runner, *pool_,
                engine::PrefixNames({1, 2})) {}

  // Submits `count` prompts.
  void Submit(int count, int prompt_tokens, int max_tokens) {
    for (int i = 0; i < count; ++i) {
      engine::SequenceSpec spec;
      spec.prompt = PromptIds(seed_, drawn_++, prompt_tokens, runner_.vocab_size());
      spec.sampling.max_tokens = max_tokens;
      spec.sampling.ignore_eos = true;
      const absl::StatusOr<engine::SequenceId> id = engine_.Reserve(std::move(spec));
      BATON_CHECK(id.ok()) << id.status();
      engine_.StartPrefill(*id);
      live_.push_back(*id);
    }
  }

  // Steps until every prompt has its first output.
  void RunToFirstOutputs() {
    size_t waiting = live_.size();
    while (waiting > 0) {
      for (const engine::StepEvent& event : engine_.Step()) {
        if (event.token && event.token->index == 0) --waiting;
      }
    }
  }

  void Step() { engine_.Step(); }
  // Makes the whole pool resident, as the pool of a worker is after a while.
  void TouchPool() { kv_.Touch(); }
  int64_t pool_bytes() const { return static_cast<int64_t>(pool_->memory().bytes); }

  void ReleaseAll() {
    for (engine::SequenceId id : live_) engine_.Release(id);
    live_.clear();
  }

 private:
  engine::ModelRunner& runner_;
  const uint64_t seed_;
  const int blocks_;
  // The memory of the pool, empty where the pool lies in a device.
  engine::kernels::AlignedBuffer kv_;
  const std::unique_ptr<KvPool> pool_;
  engine::Engine engine_;
  int drawn_ = 0;
  std::vector<engine::SequenceId> live_;
};

double Seconds(TimeNs begin) { return static_cast<double>(MonotonicClock().Now() - begin) / kNsPerSecond; }

}  // namespace

int DecodeChunkTokens(int streams) { return kPrefillRows + streams; }

int DecodeTokens(const DecodeShape& shape) {
  // A chunk ends with a block, so a step may leave some of its rows unused, though never half of them.
  const int prefill_steps = shape.streams * shape.context_tokens / (kPrefillRows / 2) + 2;
  return shape.context_tokens + shape.steps + prefill_steps;
}

Figure BenchPrefill(engine::ModelRunner& runner, const PrefillShape& shape, const GenerationOptions& options) {
  Session session(runner, shape.prompts, shape.prompt_tokens + 1, shape.chunk_tokens, options.seed);
  std::vector<double> rates;
  for (int round = 0; round <= options.rounds; ++round) {
    const TimeNs begin = MonotonicClock().Now();
    session.Submit(shape.prompts, shape.prompt_tokens, 1);
    session.RunToFirstOutputs();
    if (round > 0) rates.push_back(shape.prompts * shape.prompt_tokens / Seconds(begin));
    session.ReleaseAll();
  }
  Figure figure{
      .part = "prefill",
      .name = absl::StrCat(shape.prompts, " x ", shape.prompt_tokens, " tokens, chunks of ", shape.chunk_tokens),
      .parameters = {{"prompts", shape.prompts},
                     {"prompt_tokens", shape.prompt_tokens},
                     {"chunk_tokens", shape.chunk_tokens}},
      .unit = "tokens/s"};
  SetRates(std::move(rates), figure);
  return figure;
}

Figure BenchDecode(engine::ModelRunner& runner, const DecodeShape& shape, const GenerationOptions& options) {
  const int max_tokens = DecodeTokens(shape) - shape.context_tokens;
  Session session(runner, shape.streams, DecodeTokens(shape), DecodeChunkTokens(shape.streams), options.seed);
  // Without this, the first round would measure how fast the system backs memory.
  session.TouchPool();
  std::vector<double> rates;
  for (int round = 0; round < options.rounds; ++round) {
    session.Submit(shape.streams, shape.context_tokens, max_tokens);
    session.RunToFirstOutputs();
    const TimeNs begin = MonotonicClock().Now();
    for (int step = 0; step < shape.steps; ++step) session.Step();
    rates.push_back(shape.streams * shape.steps / Seconds(begin));
    session.ReleaseAll();
  }
  Figure figure{
      .part = "decode",
      .name = absl::StrCat(shape.streams, " streams, context ", shape.context_tokens, " to ",
                           shape.context_tokens + shape.steps),
      .parameters = {{"streams", shape.streams}, {"context_tokens", shape.context_tokens}, {"steps", shape.steps}},
      .unit = "tokens/s"};
  SetRates(std::move(rates), figure);
  return figure;
}

MemoryUse MeasureMemory(engine::ModelRunner& runner, const DecodeShape& shape, uint64_t seed) {
  Session session(runner, shape.streams, DecodeTokens(shape), DecodeChunkTokens(shape.streams), seed);
  session.TouchPool();
  session.Submit(shape.streams, shape.context_tokens, DecodeTokens(shape) - shape.context_tokens);
  session.RunToFirstOutputs();
  session.Step();
  return {.kv_pool_bytes = session.pool_bytes(), .resident_bytes = ResidentBytesBesidesFiles()};
}

}  // namespace baton::bench
