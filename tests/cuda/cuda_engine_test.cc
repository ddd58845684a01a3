// The engine over the CUDA runner: whatever sequences share its steps, its blocks and its cache, each has the tokens of
// one that runs alone.
#include <algorithm>
#include <map>
#include <set>

#include "engine/engine.h"
#include "tests/cuda/small_models.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kEngineSeed = 60221;
constexpr int32_t kChunk = 16;
constexpr int32_t kMostTogether = 5;
constexpr int kMostSteps = 2'000;
// Fewer than the requests need together, and more than the longest needs.
constexpr int32_t kSpareBlocksOfAGroup = 3;

// An engine with a runner and a pool on the device.
struct DeviceEngine {
  DeviceEngine(const modelfile::ModelFile& file, const EngineOptions& options, int32_t spare_blocks)
      : runner(LoadCuda(file, {.max_rows = options.chunk_tokens + options.max_sequences})),
        pool(*runner->MakeKvPool(BlocksFor(*runner, options, spare_blocks), {})),
        engine(options, *runner, *pool, PrefixNames({1, 2})) {}

  // Enough for the longest request, and so many more in each group.
  static int32_t BlocksFor(const ModelRunner& runner, const EngineOptions& options, int32_t spare) {
    constexpr int64_t kLongest = 64;
    const KvGroups groups = runner.kv_layout().groups();
    return groups.MostBlocks(kLongest, options.chunk_tokens) + spare * groups.count();
  }

  std::unique_ptr<CudaRunner> runner;
  std::unique_ptr<KvPool> pool;
  Engine engine;
};

// Prompts below, at and beyond the ends of blocks, some of which begin alike, each with a way to choose its tokens.
std::vector<SequenceSpec> Requests(int32_t vocab) {
  SeededRandom random(kEngineSeed);
  const std::vector<int32_t> common = RandomTokens(random, 33, vocab);
  std::vector<SequenceSpec> requests;
  for (const int length : {1, 15, 16, 33, 40, 50, 34}) {
    SequenceSpec spec;
    spec.prompt = RandomTokens(random, length, vocab);
    if (length > 33) std::copy(common.begin(), common.end(), spec.prompt.begin());
    SamplingParams& p = spec.sampling;
    p.max_tokens = 10 + length % 7;
    p.seed = random.Next64();
    switch (requests.size() % 4) {
      case 0:
        break;
      // Drawn on the device.
      case 1:
        p.temperature = 1.0f;
        p.top_k = 20;
        break;
      // Chosen on the host.
      case 2:
        p.temperature = 0.8f;
        p.repetition_penalty = 1.3f;
        break;
      case 3:
        p.logprobs = 2;
        break;
    }
    requests.push_back(std::move(spec));
  }
  return requests;
}

using Tokens = std::vector<OutputToken>;

Tokens Alone(Engine& engine, const SequenceSpec& spec) {
  Tokens tokens;
  const SequenceId id = engine.Reserve(spec).value();
  engine.StartPrefill(id);
  for (int step = 0; engine.HasWork() && step < kMostSteps; ++step) {
    for (const StepEvent& event : engine.Step()) {
      if (event.token) tokens.push_back(*event.token);
    }
  }
  engine.Release(id);
  return tokens;
}

// Requests that share one engine. Some are cancelled in the midst of their output.
class Together {
 public:
  Together(DeviceEngine& device, const std::vector<SequenceSpec>& requests)
      : engine_(device.engine), requests_(requests), tokens_(requests.size()) {}

  void Run() {
    for (int step = 0; next_ < requests_.size() || !running_.empty(); ++step) {
      ASSERT_LT(step, kMostSteps) << "no progress";
      Admit();
      for (const StepEvent& event : engine_.Step()) Take(event);
      if (step == 5 || step == 9) CancelOldest();
    }
  }

  const Tokens& tokens(size_t request) const { return tokens_[request]; }
  bool cancelled(size_t request) const { return cancelled_.contains(request); }
  size_t cancelled() const { return cancelled_.size(); }

 private:
  // As a worker does: nothing new while a preempted sequence waits.
  void Admit() {
    while (next_ < requests_.size() && engine_.Load().preempted == 0) {
      const absl::StatusOr<SequenceId> id = engine_.Reserve(requests_[next_]);
      if (!id.ok()) {
        ASSERT_TRUE(absl::IsResourceExhausted(id.status())) << id.status();
        return;
      }
      engine_.StartPrefill(*id);
      running_[*id] = next_++;
    }
  }

  void Take(const StepEvent& event) {
    if (!event.token) return;
    Tokens& tokens = tokens_[running_.at(event.sequence)];
    ASSERT_EQ(event.token->index, static_cast<int32_t>(tokens.size()));
    tokens.push_back(*event.token);
    if (!event.token->is_last()) return;
    engine_.Release(event.sequence);
    running_.erase(event.sequence);
  }

  void CancelOldest() {
    ASSERT_FALSE(running_.empty());
    const auto [id, request] = *running_.begin();
    engine_.Stop(id);
    engine_.Release(id);
    cancelled_.insert(request);
    running_.erase(id);
  }

  Engine& engine_;
  const std::vector<SequenceSpec>& requests_;
  std::vector<Tokens> tokens_;
  std::set<size_t> cancelled_;
  // By the sequence, the request.
  std::map<SequenceId, size_t> running_;
  size_t next_ = 0;
};

void ExpectTheTokensOfEachAlone(const SyntheticSpec& spec) {
  const auto file = MakeSyntheticModel(spec);
  const std::vector<SequenceSpec> requests = Requests(spec.vocab_size);
  // Whole prompts in one chunk, and nothing of one request for the next.
  DeviceEngine alone(*file, {.chunk_tokens = 64, .max_sequences = 1, .prefix_cache = false}, 0);
  DeviceEngine device(*file, {.chunk_tokens = kChunk, .max_sequences = kMostTogether}, kSpareBlocksOfAGroup);
  Together together(device, requests);
  together.Run();
  for (size_t i = 0; i < requests.size(); ++i) {
    Tokens want = Alone(alone.engine, requests[i]);
    ASSERT_EQ(want.size(), static_cast<size_t>(requests[i].sampling.max_tokens)) << "request " << i;
    if (together.cancelled(i)) want.resize(together.tokens(i).size());
    EXPECT_EQ(together.tokens(i), want) << "request " << i;
  }
  // Otherwise the test would show less than it says.
  EXPECT_EQ(together.cancelled(), 2u);
  const EngineCounters counters = device.engine.Counters();
  EXPECT_GT(counters.preemptions, 0);
  EXPECT_GT(counters.prefix_hit_tokens, 0);
  EXPECT_GT(device.runner->graphs(), 2u);
  const EngineLoad load = device.engine.Load();
  EXPECT_EQ(load.used_blocks, 0);
  EXPECT_EQ(load.free_blocks + load.cached_blocks, load.total_blocks);
}

TEST(CudaEngine, SequencesOfOneEngineHaveTheTokensOfEachAlone) { ExpectTheTokensOfEachAlone(Small()); }

TEST(CudaEngine, SequencesWithAWindowHaveTheTokensOfEachAlone) { ExpectTheTokensOfEachAlone(SmallGemma()); }

TEST(CudaEngine, APromptHasTheSameKvInChunksBesideOthersAsAlone) {
  const auto file = MakeSyntheticModel(SmallGemma());
  SeededRandom random(kEngineSeed);
  SequenceSpec handed_over;
  handed_over.prompt = RandomTokens(random, 61, Small().vocab_size);
  handed_over.sampling.max_tokens = 8;
  handed_over.prefill_only = true;
  std::vector<Digest128> digests;
  for (const int32_t chunk : {64, 16}) {
    DeviceEngine device(*file, {.chunk_tokens = chunk, .max_sequences = 2}, 16);
    if (chunk == 16) {
      SequenceSpec other;
      other.prompt = RandomTokens(random, 3, Small().vocab_size);
      other.sampling.max_tokens = 30;
      device.engine.StartPrefill(device.engine.Reserve(other).value());
      device.engine.Step();
    }
    const SequenceId id = device.engine.Reserve(handed_over).value();
    device.engine.StartPrefill(id);
    int steps = 0;
    bool has_token = false;
    while (!has_token && ++steps < kMostSteps) {
      for (const StepEvent& event : device.engine.Step())
        has_token = has_token || (event.sequence == id && event.token);
    }
    EXPECT_EQ(steps > 1, chunk == 16);
    digests.push_back(device.engine.PromptDigest(id));
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace baton::engine::cuda
