#include "engine/cuda/cuda_fingerprint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "engine/model/fingerprint.h"
#include "engine/model/synthetic_model.h"

namespace baton::engine::cuda {
namespace {

// Raised with every change of the numerics that kernels/params.h defines.
constexpr int kNumericsVersion = 1;

absl::StatusOr<Digest128> ProbeModel(const SyntheticSpec& spec, const std::shared_ptr<const Device>& device) {
  const auto file = MakeSyntheticModel(spec);
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CudaRunner> runner,
                         CudaRunner::Load(*file, {.max_rows = kProbeChunk, .probes = false}, device));
  const KvLayout& layout = runner->kv_layout();
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceKvPool> pool,
                         DeviceKvPool::Create(*device, layout.block_bytes(), ProbeBlockCount(layout)));
  runner->SetKvPool(*pool);
  Digest128 digest = ProbeLogits(*runner);
  for (BlockId block = 0; block < pool->block_count(); ++block) {
    const Digest128 of_block = pool->Digest(block);
    digest = DigestChain(digest, &of_block, sizeof(of_block));
  }
  return digest;
}

}  // namespace

absl::StatusOr<std::string> CudaFingerprint(const modelfile::ModelFile& file, const CudaModelOptions& options,
                                            const KvLayout& layout, std::shared_ptr<const Device> device) {
  std::string probe = "none";
  if (options.probes) {
    Digest128 digest;
    for (const SyntheticSpec& spec : ProbeSpecs()) {
      BATON_ASSIGN_OR_RETURN(const Digest128 one, ProbeModel(spec, device));
      digest = DigestChain(digest, &one, sizeof(one));
    }
    probe = digest.ToHex();
  }
  const std::string rounded =
      IsRounded(file, options.weights) ? absl::StrCat("-", ToAbsl(WeightsName(options.weights))) : "";
  return absl::StrFormat("cuda-bf16-v%d/kv:%s/weights:%s%s/probe:%s", kNumericsVersion, layout.ToString(),
                         file.WeightsDigest().ToHex(), rounded, probe);
}

}  // namespace baton::engine::cuda
