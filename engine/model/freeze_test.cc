// What a frozen sequence of the CPU model hands over: the bytes of a prefill of its tokens, with zeros behind them.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/testing/synthetic_variants.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

constexpr int32_t kBlocks = 64;

// An engine over a pool whose memory held other things before.
class UsedEngine {
 public:
  UsedEngine(ModelRunner& runner, int garbage)
      : memory_(static_cast<size_t>(kBlocks) * runner.kv_layout().block_bytes()),
        pool_(absl::MakeSpan(memory_.data(), memory_.bytes()), runner.kv_layout().block_bytes()) {
    std::memset(memory_.data(), garbage, memory_.bytes());
    engine.emplace(EngineOptions{.chunk_tokens = 64}, runner, pool_, PrefixNames({1, 2}));
  }

  SequenceId Start(std::vector<int32_t> prompt) {
    SequenceSpec spec;
    spec.prompt = std::move(prompt);
    spec.sampling.max_tokens = 100;
    spec.sampling.ignore_eos = true;
    const SequenceId id = engine->Reserve(spec).value();
    engine->StartPrefill(id);
    return id;
  }
  // The next outputs.
  std::vector<int32_t> Run(size_t outputs) {
    std::vector<int32_t> tokens;
    while (tokens.size() < outputs) {
      for (const StepEvent& event : engine->Step()) {
        if (event.token) tokens.push_back(event.token->token);
      }
    }
    return tokens;
  }

  std::optional<Engine> engine;

 private:
  kernels::AlignedBuffer memory_;
  HostKvPool pool_;
};

void CheckFreeze(ModelRunner& runner, int vocab_size, size_t outputs) {
  SCOPED_TRACE(outputs);
  SeededRandom random(kSeed);
  std::vector<int32_t> tokens = RandomTokens(random, 21, vocab_size);
  Digest128 frozen;
  {
    UsedEngine source(runner, 0xff);
    const SequenceId id = source.Start(tokens);
    std::vector<int32_t> more = source.Run(outputs);
    for (const BlockId block : source.engine->Freeze(id)) {
      const Digest128 digest = source.engine->BlockDigests({block}).front();
      frozen = DigestChain(frozen, &digest, sizeof(digest));
    }
    tokens.insert(tokens.end(), more.begin(), more.end() - 1);
  }
  UsedEngine prefill(runner, 0x5a);
  const SequenceId id = prefill.Start(tokens);
  prefill.Run(1);
  EXPECT_EQ(frozen, prefill.engine->PromptDigest(id));
}

TEST(CpuModelFreeze, TheBytesAreThoseOfAPrefillInEveryFormatOfKv) {
  for (const KvDtype kv_dtype : {KvDtype::kBf16, KvDtype::kF32, KvDtype::kInt8}) {
    for (const Variant& variant : Variants()) {
      SCOPED_TRACE(std::string(variant.name) + ", KV " + std::string(KvDtypeName(kv_dtype)));
      const auto file = MakeSyntheticModel(variant.spec);
      const auto runner = Load(*file, {.numerics = kv_dtype == KvDtype::kF32 ? Numerics::kFp32 : Numerics::kExact,
                                       .kv_dtype = kv_dtype,
                                       .threads = 1,
                                       .max_rows = 128});
      ASSERT_NE(runner, nullptr);
      // Behind one row of a block, several, an odd one, and all of them.
      for (const size_t outputs : {1, 5, 12, 13, 14, 30}) CheckFreeze(*runner, variant.spec.vocab_size, outputs);
    }
  }
}

}  // namespace
}  // namespace baton::engine
