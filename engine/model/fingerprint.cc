#include "engine/model/fingerprint.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "engine/model/llama_runner.h"
#include "engine/model/synthetic_model.h"

namespace baton::engine {
namespace {

// Raised whenever the definition of an operator changes.
constexpr int kNumericsVersion = 1;
// Past the first attention split, in chunks that end inside blocks.
constexpr int kProbeTokens = kernels::kSplitTokens + 11;
constexpr int kProbeChunk = 89;

}  // namespace

Digest128 ProbeNumerics(Numerics numerics, const kernels::KernelTable& table) {
  const auto file = MakeSyntheticModel({});
  auto pool = std::make_unique<kernels::ThreadPool>(1);
  auto weights = LoadLlamaWeights(*file, numerics, *pool);
  BATON_CHECK(weights.ok()) << weights.status();
  LlamaRunner runner(*std::move(weights), numerics, table, std::move(pool), kProbeChunk);

  std::vector<BlockId> blocks(static_cast<size_t>(BlocksForTokens(kProbeTokens)));
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<BlockId>(i);
  kernels::AlignedBuffer kv(blocks.size() * runner.kv_layout().block_bytes());
  runner.SetKvPool(kv.data(), static_cast<int32_t>(blocks.size()));
  std::vector<int32_t> tokens(static_cast<size_t>(kProbeTokens));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 31 % file->config().vocab_size);

  std::vector<float> logits(static_cast<size_t>(runner.vocab_size()));
  Digest128 digest;
  for (int start = 0; start < kProbeTokens; start += kProbeChunk) {
    SequenceSlice slice;
    slice.row_count = std::min(kProbeChunk, kProbeTokens - start);
    slice.first_position = start;
    slice.blocks = blocks;
    slice.wants_logits = true;
    slice.logits_index = 0;
    StepBatch batch;
    batch.tokens =
        absl::MakeConstSpan(tokens).subspan(static_cast<size_t>(start), static_cast<size_t>(slice.row_count));
    batch.slices = absl::MakeConstSpan(&slice, 1);
    batch.logits_count = 1;
    runner.Forward(batch, absl::MakeSpan(logits));
    digest = DigestChain(digest, logits.data(), logits.size() * sizeof(float));
  }
  return DigestChain(digest, kv.data(), kv.bytes());
}

std::string MakeFingerprint(const Digest128& weights, const KvLayout& layout, Numerics numerics,
                            const Digest128& probe) {
  return absl::StrFormat("%s-v%d/kv:%s/weights:%s/probe:%s", numerics == Numerics::kExact ? "exact" : "fp32",
                         kNumericsVersion, layout.ToString(), weights.ToHex(), probe.ToHex());
}

}  // namespace baton::engine
