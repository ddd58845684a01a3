// The engine over the CUDA runner: whatever sequences share its steps, its blocks and its cache, each has the tokens of
// one that runs alone.
#include <algorithm>
#include <map>
#include <set>
#include <string>

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
// No request is preempted.
constexpr int32_t kPlenty = 30;

// Counts the steps that are submitted while another one is in flight.
class CountingRunner final : public ModelRunner {
 public:
  explicit CountingRunner(ModelRunner& runner) : runner_(runner) {}

  int32_t vocab_size() const override { return runner_.vocab_size(); }
  int32_t context_length() const override { return runner_.context_length(); }
  int32_t hidden_size() const override { return runner_.hidden_size(); }
  const KvLayout& kv_layout() const override { return runner_.kv_layout(); }
  const std::string& fingerprint() const override { return runner_.fingerprint(); }
  void SetKvPool(KvPool& pool) override { runner_.SetKvPool(pool); }
  void ZeroRows(BlockId block, int32_t first_row) override { runner_.ZeroRows(block, first_row); }
  bool TakesStepAhead() const override { return runner_.TakesStepAhead(); }
  void Submit(const StepBatch& batch, const StepOutputs& outputs) override {
    if (in_flight_++ > 0) ++ahead_;
    runner_.Submit(batch, outputs);
  }
  void Complete() override {
    --in_flight_;
    runner_.Complete();
  }

  int ahead() const { return ahead_; }

 private:
  ModelRunner& runner_;
  int in_flight_ = 0;
  int ahead_ = 0;
};

// An engine with a runner and a pool on the device.
struct DeviceEngine {
  DeviceEngine(const modelfile::ModelFile& file, const EngineOptions& options, int32_t spare_blocks,
               CudaModelOptions model = {})
      : runner(LoadCuda(file, Sized(model, options))),
        counting(*runner),
        pool(*runner->MakeKvPool(BlocksFor(*runner, options, spare_blocks), {})),
        engine(options, counting, *pool, PrefixNames({1, 2})) {}

  static CudaModelOptions Sized(CudaModelOptions model, const EngineOptions& options) {
    model.max_rows = options.chunk_tokens + options.max_sequences;
    return model;
  }

  // Enough for the longest request, and so many more in each group.
  static int32_t BlocksFor(const ModelRunner& runner, const EngineOptions& options, int32_t spare) {
    constexpr int64_t kLongest = 64;
    const KvGroups groups = runner.kv_layout().groups();
    return groups.MostBlocks(kLongest, options.chunk_tokens) + spare * groups.count();
  }

  std::unique_ptr<CudaRunner> runner;
  CountingRunner counting;
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

// The same requests, but that the device chooses all of their tokens.
std::vector<SequenceSpec> RequestsOfTheDevice(int32_t vocab) {
  std::vector<SequenceSpec> requests = Requests(vocab);
  for (SequenceSpec& spec : requests) {
    spec.sampling.repetition_penalty = 1.0f;
    spec.sampling.logprobs = -1;
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

struct DeviceCase {
  CudaModelOptions options = {};
  int32_t spare_blocks = kSpareBlocksOfAGroup;
  // Steps that are ahead, at least.
  int ahead = 0;
};

void ExpectTheTokensOfEachAlone(const SyntheticSpec& spec, const std::vector<SequenceSpec>& requests,
                                const DeviceCase& c = {}) {
  const auto file = MakeSyntheticModel(spec);
  // Whole prompts in one chunk, and nothing of one request for the next.
  DeviceEngine alone(*file, {.chunk_tokens = 64, .max_sequences = 1, .prefix_cache = false}, 0, {.steps_ahead = false});
  DeviceEngine device(*file, {.chunk_tokens = kChunk, .max_sequences = kMostTogether}, c.spare_blocks, c.options);
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
  const bool is_tight = c.spare_blocks == kSpareBlocksOfAGroup;
  EXPECT_EQ(counters.preemptions > 0, is_tight);
  EXPECT_EQ(counters.prefix_hit_tokens > 0, is_tight);
  EXPECT_GT(device.runner->graphs() + (c.options.graphs ? 0 : 1), is_tight ? 2U : 0U);
  EXPECT_GE(device.counting.ahead(), c.ahead);
  EXPECT_EQ(alone.counting.ahead(), 0);
  const EngineLoad load = device.engine.Load();
  EXPECT_EQ(load.used_blocks, 0);
  EXPECT_EQ(load.free_blocks + load.cached_blocks, load.total_blocks);
}

TEST(CudaEngine, SequencesOfOneEngineHaveTheTokensOfEachAlone) {
  ExpectTheTokensOfEachAlone(Small(), Requests(Small().vocab_size));
}

TEST(CudaEngine, SequencesWithAWindowHaveTheTokensOfEachAlone) {
  ExpectTheTokensOfEachAlone(SmallGemma(), Requests(Small().vocab_size));
}

TEST(CudaEngine, TokensThatTheDeviceChoosesAreTheSameInStepsThatAreAhead) {
  const std::vector<SequenceSpec> requests = RequestsOfTheDevice(Small().vocab_size);
  ExpectTheTokensOfEachAlone(Small(), requests, {.ahead = 5});
  ExpectTheTokensOfEachAlone(Small(), requests, {.spare_blocks = kPlenty, .ahead = 10});
  ExpectTheTokensOfEachAlone(SmallGemma(), requests,
                             {.options = {.graphs = false}, .spare_blocks = kPlenty, .ahead = 10});
}

// What the host asked of the device: launches of graphs ('L') and waits for events ('W').
std::string& Asked() {
  static std::string& asked = *new std::string;
  return asked;
}

std::shared_ptr<const Device> WatchedDevice() {
  static DriverApi& api = *new DriverApi(DriverUnderTest());
  api.graph_launch = [](CUgraphExec graph, CUstream stream) {
    Asked() += 'L';
    return DriverUnderTest().graph_launch(graph, stream);
  };
  api.event_synchronize = [](CUevent event) {
    Asked() += 'W';
    return DriverUnderTest().event_synchronize(event);
  };
  const void* const images[] = {KernelsUnderTest()};
  auto device = Device::Open(api, 0, images);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(CudaEngine, AStepIsLaunchedBeforeTheHostHasTheTokensOfTheOneBefore) {
  const auto file = MakeSyntheticModel(Small());
  for (const bool steps_ahead : {true, false}) {
    auto runner = CudaRunner::Load(*file, {.max_rows = 20, .steps_ahead = steps_ahead}, WatchedDevice());
    ASSERT_TRUE(runner.ok()) << runner.status();
    const auto pool = *(*runner)->MakeKvPool(8, {});
    Engine engine({.chunk_tokens = 16, .max_sequences = 4}, **runner, *pool, PrefixNames({1, 2}));
    SequenceSpec spec;
    spec.prompt = {1, 2, 3};
    spec.sampling.max_tokens = 6;
    engine.StartPrefill(engine.Reserve(spec).value());
    // The prompt, whose step is no graph.
    engine.Step();
    Asked().clear();
    while (engine.HasWork()) engine.Step();
    EXPECT_EQ(Asked(), steps_ahead ? "LLWLWLWLWW" : "LWLWLWLWLW");
  }
}

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
