// The engine over a pool that it cannot touch: all it does with blocks, it does through KvPool.
#include <cstdint>
#include <vector>

#include "common/testing/fenced_kv_pool.h"
#include "engine/engine.h"
#include "engine/testing/checked_engine.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int32_t kDeviceBlocks = 16;
constexpr int32_t kDeviceOutputs = 20;
// The last block is partial, so that its unused rows must be zero.
constexpr int32_t kDevicePromptTokens = 40;

// Computes where the fenced pool's bytes are.
class DeviceModel final : public FakeModel {
 public:
  explicit DeviceModel(const FencedKvPool& pool) : FakeModel({}), pool_(pool) {}
  void Forward(const StepBatch& batch, absl::Span<float> logits, absl::Span<float> hidden_states) override {
    pool_.OnDevice([&](absl::Span<uint8_t>) { FakeModel::Forward(batch, logits, hidden_states); });
  }

 private:
  const FencedKvPool& pool_;
};

struct DeviceEngine {
  FencedKvPool pool{kDeviceBlocks, FakeModel({}).kv_layout().block_bytes()};
  DeviceModel model{pool};
  Engine engine{{}, model, pool, PrefixNames({1, 2})};
};

SequenceSpec DeviceSpec(bool prefill_only = false) {
  SequenceSpec spec{.prompt = std::vector<int32_t>(kDevicePromptTokens, 7), .prefill_only = prefill_only};
  spec.sampling.max_tokens = kDeviceOutputs;
  return spec;
}

std::vector<int32_t> DeviceTokens() { return FakeModelTokens({}, DeviceSpec().prompt, DeviceSpec().sampling, {}); }

std::vector<int32_t> AllTokens(Engine& engine) {
  std::vector<int32_t> tokens;
  while (engine.HasWork()) {
    for (const StepEvent& event : engine.Step()) {
      if (event.token.has_value()) tokens.push_back(event.token->token);
    }
  }
  return tokens;
}

SequenceId StartOnlyPrefill(Engine& engine) {
  const SequenceId id = engine.Reserve(DeviceSpec(true)).value();
  engine.StartPrefill(id);
  return id;
}

TEST(EngineOverDeviceMemory, TokensAreThoseOfHostMemory) {
  DeviceEngine device;
  device.engine.StartPrefill(device.engine.Reserve(DeviceSpec()).value());
  EXPECT_EQ(AllTokens(device.engine), DeviceTokens());
  EXPECT_EQ(device.pool.zeroed(), 1);
  EXPECT_EQ(device.pool.digested(), 0);
}

TEST(EngineOverDeviceMemory, DigestsAreThoseOfHostMemory) {
  DeviceEngine device;
  TestEngine host(kDeviceBlocks);
  const SequenceId on_device = StartOnlyPrefill(device.engine);
  const SequenceId on_host = StartOnlyPrefill(host.engine);
  AllTokens(device.engine);
  AllTokens(host.engine);
  EXPECT_EQ(device.engine.PromptDigest(on_device), host.engine.PromptDigest(on_host));
  EXPECT_EQ(device.pool.digested(), BlocksForTokens(kDevicePromptTokens));
}

TEST(EngineOverDeviceMemory, DecodesWhatAnEngineOverHostMemoryHandsOver) {
  TestEngine source(kDeviceBlocks);
  DeviceEngine sink;
  const SequenceId p = StartOnlyPrefill(source.engine);
  OutputToken first;
  while (source.HasWork()) first = source.engine.Step().front().token.value_or(first);
  const SequenceId d = sink.engine.Reserve(DeviceSpec()).value();
  sink.pool.OnDevice([&](absl::Span<uint8_t> bytes) {
    for (size_t i = 0; i < sink.engine.PromptBlocks(d).size(); ++i) {
      const absl::Span<uint8_t> from = source.Block(source.engine.PromptBlocks(p)[i]);
      std::copy(from.begin(), from.end(),
                bytes.begin() + static_cast<ptrdiff_t>(from.size()) * sink.engine.PromptBlocks(d)[i]);
    }
  });
  EXPECT_EQ(sink.engine.PromptDigest(d), source.engine.PromptDigest(p));
  sink.engine.StartDecode(d, first);
  std::vector<int32_t> tokens = AllTokens(sink.engine);
  tokens.insert(tokens.begin(), first.token);
  EXPECT_EQ(tokens, DeviceTokens());
}

}  // namespace
}  // namespace baton::engine
