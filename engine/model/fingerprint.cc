#include "engine/model/fingerprint.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "engine/model/synthetic_model.h"
#include "engine/model/transformer_runner.h"

namespace baton::engine {
namespace {

// Raised whenever the definition of an operator changes.
constexpr int kNumericsVersion = 2;
// The probe's tokens go past the first attention split, in chunks that end inside blocks.
constexpr int kProbeTokens = kernels::kSplitTokens + 11;
constexpr int32_t kProbeStride = BlocksForTokens(kProbeTokens);

// Blocks of all groups, so that the KV of one index lies together, layer by layer: groups have one layer each.
std::vector<BlockId> ProbeBlocks(const KvLayout& layout, int32_t stride) {
  const int32_t groups = layout.groups().count();
  BATON_CHECK(groups == 1 || layout.group_layers() == 1);
  const std::vector<KvLayout::Place> places = layout.Places();
  std::vector<BlockId> blocks(static_cast<size_t>(groups * stride));
  for (int32_t i = 0; i < stride; ++i) {
    for (int32_t rank = 0; rank < groups; ++rank) {
      blocks[static_cast<size_t>(places.at(static_cast<size_t>(rank)).group * stride + i)] = i * groups + rank;
    }
  }
  return blocks;
}

Digest128 ProbeModel(const SyntheticSpec& spec, Numerics numerics, KvDtype kv_dtype,
                     const kernels::KernelTable& table) {
  const auto file = MakeSyntheticModel(spec);
  auto pool = std::make_unique<kernels::ThreadPool>(1);
  auto weights = LoadTransformerWeights(*file, {.numerics = numerics}, *pool);
  BATON_CHECK(weights.ok()) << weights.status();
  TransformerRunner runner(*std::move(weights), kv_dtype, table, std::move(pool), kProbeChunk);

  const size_t block_bytes = runner.kv_layout().block_bytes();
  kernels::AlignedBuffer kv(static_cast<size_t>(ProbeBlockCount(runner.kv_layout())) * block_bytes);
  HostKvPool kv_pool(absl::MakeSpan(kv.data(), kv.bytes()), block_bytes);
  runner.SetKvPool(kv_pool);
  const Digest128 digest = ProbeLogits(runner);
  return DigestChain(digest, kv.data(), kv.bytes());
}

}  // namespace

std::vector<SyntheticSpec> ProbeSpecs() {
  using modelfile::TensorType;
  const SyntheticSpec gemma{.rope_interleaved = false,
                            .rope_scaling_factor = 8.0f,
                            .sliding_window = 100,
                            .gemma = true,
                            .attention = TensorType::kQ5_0,
                            .ffn = TensorType::kQ5_0};
  const SyntheticSpec factors{.layers = 1,
                              .hidden_size = 256,
                              .heads = 4,
                              .head_dim = 64,
                              .ffn_size = 256,
                              .attention = TensorType::kQ4_K,
                              .ffn = TensorType::kQ6_K,
                              .embedding = TensorType::kQ5_K};
  return {{}, gemma, factors};
}

int32_t ProbeBlockCount(const KvLayout& layout) { return layout.groups().count() * kProbeStride; }

Digest128 ProbeLogits(ModelRunner& runner) {
  const std::vector<BlockId> blocks = ProbeBlocks(runner.kv_layout(), kProbeStride);
  std::vector<int32_t> tokens(static_cast<size_t>(kProbeTokens));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 31 % runner.vocab_size());

  std::vector<float> logits(static_cast<size_t>(runner.vocab_size()));
  Digest128 digest;
  for (int start = 0; start < kProbeTokens; start += kProbeChunk) {
    SequenceSlice slice;
    slice.row_count = std::min(kProbeChunk, kProbeTokens - start);
    slice.first_position = start;
    slice.blocks = blocks;
    slice.group_stride = kProbeStride;
    slice.output_rows = OutputRows::kLast;
    slice.first_output = 0;
    StepBatch batch;
    batch.tokens =
        absl::MakeConstSpan(tokens).subspan(static_cast<size_t>(start), static_cast<size_t>(slice.row_count));
    batch.slices = absl::MakeConstSpan(&slice, 1);
    batch.output_count = 1;
    runner.Run(batch, {.logits = absl::MakeSpan(logits)});
    digest = DigestChain(digest, logits.data(), logits.size() * sizeof(float));
  }
  return digest;
}

Digest128 ProbeNumerics(Numerics numerics, KvDtype kv_dtype, const kernels::KernelTable& table) {
  Digest128 digest;
  for (const SyntheticSpec& spec : ProbeSpecs()) {
    const Digest128 one = ProbeModel(spec, numerics, kv_dtype, table);
    digest = DigestChain(digest, &one, sizeof(one));
  }
  return digest;
}

std::string MakeFingerprint(const WeightsIdentity& weights, const KvLayout& layout, Numerics numerics,
                            const Digest128& probe) {
  const std::string rounded = weights.rounded_to.empty() ? "" : absl::StrCat("-", ToAbsl(weights.rounded_to));
  return absl::StrFormat("%s-v%d/kv:%s/weights:%s%s/probe:%s", ToAbsl(NumericsName(numerics)), kNumericsVersion,
                         layout.ToString(), weights.digest.ToHex(), rounded, probe.ToHex());
}

}  // namespace baton::engine
