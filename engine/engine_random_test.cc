// Random work through engines with too little memory: every sequence that is not cancelled gets exactly the tokens that
// the model's oracle gives, whatever the batch, the chunks, the cache, preemption, or where its prompt was computed.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/random.h"
#include "engine/testing/checked_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int kMaxRounds = 200'000;
const FakeModelOptions kModel = {.vocab_size = 64, .context_length = 150};

// In half of the runs some layers slide, or all.
FakeModelOptions RandomModel(RandomSource& random, StepsAhead steps_ahead) {
  FakeModelOptions model = kModel;
  model.steps_ahead = steps_ahead;
  if (random.Below(2) == 0) return model;
  model.full_layers = static_cast<int32_t>(random.Below(3));
  model.sliding_layers = 1 + static_cast<int32_t>(random.Below(4));
  model.window = 2 + static_cast<int32_t>(random.Below(random.Below(2) == 0 ? 40 : 120));
  return model;
}

class RandomRun {
 public:
  RandomRun(uint64_t seed, StepsAhead steps_ahead)
      : random_(seed), disaggregated_(random_.Below(2) == 0), model_(RandomModel(random_, steps_ahead)) {
    const KvGroups groups = FakeModel(model_).kv_layout().groups();
    const int32_t chunk_tokens = 16 << random_.Below(6);
    // Just enough for the longest request, or somewhat more.
    const int32_t block_count = groups.MostBlocks(model_.context_length - 1, chunk_tokens) +
                                static_cast<int32_t>(random_.Below(12)) * groups.count();
    const EngineOptions options = {
        .chunk_tokens = chunk_tokens,
        .max_sequences = 1 + static_cast<int32_t>(random_.Below(8)),
        .eos_ids = random_.Below(2) == 0 ? std::vector<int32_t>{} : std::vector<int32_t>{3, 40},
        .prefix_cache = random_.Below(3) != 0};
    eos_ids_ = options.eos_ids;
    decode_ = std::make_unique<TestEngine>(block_count, options, model_);
    if (disaggregated_) prefill_ = std::make_unique<TestEngine>(block_count, options, model_);
    const size_t jobs = 5 + random_.Below(20);
    for (size_t i = 0; i < jobs; ++i) jobs_.push_back({.spec = RandomSpec()});
  }

  void Run() {
    for (int turn = 0; !Done(); ++turn) {
      ASSERT_LT(turn, kMaxRounds) << "no progress";
      if (random_.Below(3) == 0) Admit();
      if (prefill_ != nullptr && random_.Below(2) == 0) StepPrefill();
      if (random_.Below(2) == 0) StepDecode();
      if (random_.Below(300) == 0) CancelOne();
      if (model_.steps_ahead != StepsAhead::kNone && random_.Below(20) == 0) FreezeOne();
      if (::testing::Test::HasFatalFailure()) return;
    }
    CheckNothingIsLeft(*decode_);
    if (prefill_ != nullptr) CheckNothingIsLeft(*prefill_);
  }

  int64_t preemptions() const { return preemptions_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  int64_t steps_ahead() const {
    return decode_->model.steps_ahead() + (prefill_ == nullptr ? 0 : prefill_->model.steps_ahead());
  }

 private:
  enum class State { kWaiting, kPrefill, kRunning, kDone };
  struct Job {
    SequenceSpec spec;
    State state = State::kWaiting;
    SequenceId prefill_id = 0;
    SequenceId decode_id = 0;
    std::vector<int32_t> tokens = {};
    std::vector<PromptLogprob> prompt = {};
    bool frozen = false;
  };

  SequenceSpec RandomSpec() {
    SequenceSpec spec;
    spec.tenant = random_.Below(4) == 0 ? "other" : "";
    const size_t length = 1 + random_.Below(random_.Below(2) == 0 ? 20 : 149);
    // One of three texts, and now and then an ending of its own.
    const int32_t text = static_cast<int32_t>(random_.Below(3));
    const size_t common = random_.Below(length + 1);
    for (size_t i = 0; i < length; ++i) {
      const int32_t shared = static_cast<int32_t>((i * 5 + static_cast<size_t>(text) * 11) % 64);
      spec.prompt.push_back(i < common ? shared : static_cast<int32_t>(random_.Below(64)));
    }
    SamplingParams& p = spec.sampling;
    p.max_tokens = 1 + static_cast<int32_t>(random_.Below(80));
    p.min_tokens = static_cast<int32_t>(random_.Below(static_cast<uint64_t>(p.max_tokens)));
    p.seed = random_.Next64();
    p.temperature = random_.Below(3) == 0 ? 0.0f : 0.7f;
    p.top_k = random_.Below(3) == 0 ? 7 : 0;
    p.top_p = random_.Below(3) == 0 ? 0.8f : 1.0f;
    p.repetition_penalty = random_.Below(3) == 0 ? 1.4f : 1.0f;
    p.frequency_penalty = random_.Below(3) == 0 ? 0.3f : 0.0f;
    p.ignore_eos = random_.Below(3) == 0;
    if (random_.Below(3) == 0) p.stop_token_ids = {static_cast<int32_t>(random_.Below(64))};
    p.logprobs = random_.Below(5) == 0 ? 2 : -1;
    // By the seed's bits, so that the draws of a run stay what they were.
    if (p.seed % 3 == 0) p.prompt_logprobs = static_cast<int32_t>(p.seed >> 8 & 3);
    // So that steps run ahead while it decodes.
    if (model_.steps_ahead != StepsAhead::kNone && p.seed % 32 > 0) {
      p.repetition_penalty = 1.0f;
      p.frequency_penalty = 0.0f;
      p.logprobs = -1;
      if (p.seed % 4 > 0) p.min_tokens = 0;
    }
    return spec;
  }

  bool Done() const {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.state == State::kDone; });
  }

  // A running sequence is frozen, and goes on at once or in a while.
  void FreezeOne() {
    Job& job = jobs_[random_.Below(jobs_.size())];
    if (job.state != State::kRunning) return;
    if (job.frozen) {
      decode_->engine.Thaw(job.decode_id);
      job.frozen = false;
      return;
    }
    const std::vector<HeldBlocks> held = decode_->engine.Held();
    const bool decodes = std::any_of(held.begin(), held.end(), [&](const HeldBlocks& one) {
      return one.sequence == job.decode_id && one.state == SequenceState::kDecode;
    });
    if (!decodes) return;
    // As a reader gets them.
    decode_->engine.BlockDigests(decode_->engine.Freeze(job.decode_id));
    job.frozen = true;
  }

  // As a decode worker does: nothing new while a preempted sequence waits.
  void Admit() {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.state == State::kWaiting; });
    if (job == jobs_.end() || decode_->engine.Load().preempted > 0) return;
    SequenceSpec spec = job->spec;
    spec.pulls_prompt = prefill_ != nullptr;
    const absl::StatusOr<SequenceId> id = decode_->engine.Reserve(std::move(spec));
    if (!id.ok()) {
      ASSERT_TRUE(absl::IsResourceExhausted(id.status())) << id.status();
      return;
    }
    job->decode_id = *id;
    cached_tokens_ += decode_->engine.cached_tokens(*id);
    if (prefill_ == nullptr) {
      decode_->engine.StartPrefill(*id);
      job->state = State::kRunning;
      return;
    }
    SequenceSpec half = job->spec;
    half.prefill_only = true;
    const absl::StatusOr<SequenceId> prefill_id = prefill_->engine.Reserve(half);
    if (!prefill_id.ok()) {
      decode_->engine.Release(*id);
      return;
    }
    job->prefill_id = *prefill_id;
    prefill_->engine.StartPrefill(*prefill_id);
    job->state = State::kPrefill;
  }

  void StepPrefill() {
    if (!prefill_->engine.HasWork()) return;
    for (const StepEvent& event : prefill_->engine.Step()) {
      if (!event.token && event.prompt.empty()) continue;
      const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) {
        return j.state == State::kPrefill && j.prefill_id == event.sequence;
      });
      ASSERT_NE(job, jobs_.end());
      TakePrompt(event, *job);
      if (!event.token) continue;
      Pull(*job);
      prefill_->engine.Release(job->prefill_id);
      job->state = State::kRunning;
      job->tokens = {event.token->token};
      if (event.token->finish != FinishReason::kNone) {
        Finish(*job, event.token->finish);
      } else {
        decode_->engine.StartDecode(job->decode_id, *event.token);
      }
    }
  }

  // The blocks that the decode side has no hit for.
  void Pull(const Job& job) {
    const std::vector<BlockId> from = prefill_->engine.PromptBlocks(job.prefill_id);
    const std::vector<BlockId> to = decode_->engine.PromptBlocks(job.decode_id);
    ASSERT_EQ(from.size(), to.size());
    const int32_t cached = decode_->engine.cached_tokens(job.decode_id) / kBlockTokens;
    const int32_t first =
        decode_->model.kv_layout().groups().HandedOverBefore(cached, static_cast<int64_t>(job.spec.prompt.size()));
    for (size_t i = static_cast<size_t>(first); i < from.size(); ++i) {
      const absl::Span<uint8_t> bytes = prefill_->Block(from[i]);
      std::copy(bytes.begin(), bytes.end(), decode_->Block(to[i]).begin());
    }
    ASSERT_EQ(prefill_->engine.PromptDigest(job.prefill_id), decode_->engine.PromptDigest(job.decode_id));
  }

  void StepDecode() {
    if (!decode_->engine.HasWork()) return;
    const int32_t before = decode_->engine.Load().preempted;
    const absl::Span<const StepEvent> events = decode_->engine.Step();
    preemptions_ += std::max(decode_->engine.Load().preempted - before, 0);
    for (const StepEvent& event : events) {
      if (!event.token && event.prompt.empty()) continue;
      const auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) {
        return j.state == State::kRunning && j.decode_id == event.sequence;
      });
      ASSERT_NE(job, jobs_.end());
      TakePrompt(event, *job);
      if (!event.token) continue;
      ASSERT_EQ(event.token->index, static_cast<int32_t>(job->tokens.size()));
      job->tokens.push_back(event.token->token);
      if (event.token->finish != FinishReason::kNone) Finish(*job, event.token->finish);
    }
  }

  static void TakePrompt(const StepEvent& event, Job& job) {
    if (event.prompt.empty()) return;
    ASSERT_EQ(event.first_prompt, static_cast<int32_t>(job.prompt.size()) + 1);
    ASSERT_TRUE(job.tokens.empty());
    job.prompt.insert(job.prompt.end(), event.prompt.begin(), event.prompt.end());
  }

  void Finish(Job& job, FinishReason finish) {
    const int32_t top = job.spec.sampling.prompt_logprobs;
    ASSERT_EQ(job.prompt,
              top < 0 ? std::vector<PromptLogprob>() : FakeModelPromptLogprobs(model_, job.spec.prompt, top));
    ASSERT_EQ(job.tokens, FakeModelTokens(model_, job.spec.prompt, job.spec.sampling, eos_ids_));
    const bool full = job.tokens.size() == static_cast<size_t>(job.spec.sampling.max_tokens) ||
                      job.spec.prompt.size() + job.tokens.size() == static_cast<size_t>(model_.context_length);
    ASSERT_TRUE(full || finish == FinishReason::kStop);
    decode_->engine.Release(job.decode_id);
    job.state = State::kDone;
  }

  void CancelOne() {
    Job& job = jobs_[random_.Below(jobs_.size())];
    if (job.state == State::kPrefill) prefill_->engine.Release(job.prefill_id);
    if (job.state == State::kPrefill || job.state == State::kRunning) {
      decode_->engine.Stop(job.decode_id);
      decode_->engine.Release(job.decode_id);
    }
    job.state = State::kDone;
  }

  static void CheckNothingIsLeft(TestEngine& test) {
    const EngineLoad load = test.engine.Load();
    // Nobody wants a step that is still in flight.
    if (test.engine.HasWork()) {
      ASSERT_TRUE(test.engine.Step().empty());
    }
    ASSERT_FALSE(test.engine.HasWork());
    ASSERT_EQ(test.engine.Load().free_blocks, load.free_blocks);
    ASSERT_EQ(load.used_blocks, 0);
    ASSERT_EQ(load.free_blocks + load.cached_blocks, load.total_blocks);
    ASSERT_EQ(load.pending_prompt_tokens, 0);
  }

  SeededRandom random_;
  const bool disaggregated_;
  const FakeModelOptions model_;
  std::vector<int32_t> eos_ids_;
  std::unique_ptr<TestEngine> decode_;
  std::unique_ptr<TestEngine> prefill_;
  std::vector<Job> jobs_;
  int64_t preemptions_ = 0;
  int64_t cached_tokens_ = 0;
};

void CheckTinyPools(StepsAhead when) {
  constexpr uint64_t kSeeds = 400;
  int64_t preemptions = 0;
  int64_t cached_tokens = 0;
  int64_t steps_ahead = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RandomRun run(seed, when);
    run.Run();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    preemptions += run.preemptions();
    cached_tokens += run.cached_tokens();
    steps_ahead += run.steps_ahead();
  }
  std::cout << kSeeds << " seeds: " << preemptions << " preemptions, " << cached_tokens << " tokens from the cache, "
            << steps_ahead << " steps ahead\n";
  // Otherwise the test would cover less than it says.
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(cached_tokens, 5'000);
  EXPECT_EQ(steps_ahead > 5'000, when != StepsAhead::kNone);
}

TEST(EngineRandom, EverySequenceGetsItsOracleTokensInTinyPools) { CheckTinyPools(StepsAhead::kNone); }

TEST(EngineRandom, EverySequenceGetsItsOracleTokensInTinyPoolsWhereStepsAheadRunLate) {
  CheckTinyPools(StepsAhead::kLate);
}

TEST(EngineRandom, EverySequenceGetsItsOracleTokensInTinyPoolsWhereStepsAheadRunEarly) {
  CheckTinyPools(StepsAhead::kEarly);
}

// The same request in every configuration, with other sequences around it or alone.
TEST(EngineRandom, TokensDoNotDependOnBatchChunksCacheOrStepsAhead) {
  FakeModelOptions sliding = kModel;
  sliding.sliding_layers = 2;
  sliding.window = 37;
  SequenceSpec spec;
  for (int32_t i = 0; i < 100; ++i) spec.prompt.push_back(i * 13 % 64);
  spec.sampling = {.temperature = 1.0f, .top_p = 0.95f, .seed = 77, .max_tokens = 40, .stop_token_ids = {}};
  FakeModelOptions ahead = sliding;
  ahead.steps_ahead = StepsAhead::kLate;
  for (const FakeModelOptions& model : {kModel, sliding, ahead}) {
    const std::vector<int32_t> expected = FakeModelTokens(model, spec.prompt, spec.sampling, {});
    for (int32_t chunk_tokens : {16, 32, 48, 100, 512}) {
      for (int32_t neighbours : {0, 1, 7}) {
        for (bool prefix_cache : {false, true}) {
          TestEngine test(300, {.chunk_tokens = chunk_tokens, .prefix_cache = prefix_cache}, model);
          SequenceId id = 0;
          for (int32_t i = 0; i <= neighbours; ++i) {
            SequenceSpec other = spec;
            other.prompt.resize(static_cast<size_t>(100 - i * 9));
            other.sampling.seed += static_cast<uint64_t>(i);
            const SequenceId started = test.engine.Reserve(i == neighbours ? spec : other).value();
            test.engine.StartPrefill(started);
            id = started;
            for (int32_t step = 0; step < i && i < neighbours; ++step) test.engine.Step();
          }
          std::vector<int32_t> tokens;
          while (test.HasWork()) {
            for (const StepEvent& event : test.engine.Step()) {
              if (event.token && event.sequence == id) tokens.push_back(event.token->token);
            }
          }
          EXPECT_EQ(tokens, expected) << chunk_tokens << " " << neighbours << " " << prefix_cache;
        }
      }
    }
  }
}

// Wrong KV must give wrong tokens, or the tests above show nothing.
TEST(FakeModel, OneFlippedBitInAnyBlockChangesTheTokens) {
  FakeModelOptions sliding = kModel;
  sliding.sliding_layers = 1;
  sliding.window = 40;
  SequenceSpec spec;
  for (int32_t i = 0; i < 60; ++i) spec.prompt.push_back(i * 13 % 64);
  spec.sampling.max_tokens = 30;
  for (const FakeModelOptions& model : {kModel, sliding}) {
    const std::vector<int32_t> expected = FakeModelTokens(model, spec.prompt, spec.sampling, {});
    // In a sliding layer the blocks of tokens 16 on are there: row 60 sees 21 to 60.
    for (size_t block = 0; block < (model.sliding_layers > 0 ? 7u : 4u); ++block) {
      TestEngine test(20, {}, model);
      const SequenceId id = test.engine.Reserve(spec).value();
      test.engine.StartPrefill(id);
      std::vector<int32_t> tokens = {test.engine.Step().front().token->token};
      ASSERT_GT(test.engine.PromptBlocks(id).size(), block);
      // A cell that the next row sees.
      test.Block(test.engine.PromptBlocks(id)[block])[16 * 11] ^= 1;
      while (test.HasWork()) tokens.push_back(test.engine.Step().front().token->token);
      EXPECT_NE(tokens, expected) << "block " << block;
      EXPECT_EQ(tokens[0], expected[0]);
    }
  }
}

}  // namespace
}  // namespace baton::engine
