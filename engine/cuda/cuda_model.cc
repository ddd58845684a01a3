#include "engine/cuda/cuda_model.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "engine/model/fingerprint.h"
#include "engine/model/synthetic_model.h"

namespace baton::engine::cuda {
namespace {

// Raised with every change of the numerics that kernels/params.h defines.
constexpr int kCudaNumericsVersion = 1;

absl::StatusOr<Digest128> ProbeOnDevice(const SyntheticSpec& spec, const std::shared_ptr<const Device>& device) {
  const auto file = MakeSyntheticModel(spec);
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CudaRunner> runner,
                         CudaRunner::Load(*file, {.max_rows = kProbeChunk}, device));
  const int32_t blocks = ProbeBlockCount(runner->kv_layout());
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<KvPool> pool, runner->MakeKvPool(blocks, {}));
  runner->SetKvPool(*pool);
  Digest128 digest = ProbeLogits(*runner);
  // As hand-offs take them, so that builds whose digests of blocks differ have different fingerprints.
  for (BlockId block = 0; block < blocks; ++block) {
    const Digest128 of_block = pool->Digest(block);
    digest = DigestChain(digest, &of_block, sizeof(of_block));
  }
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRunner>> LoadCudaModel(const modelfile::ModelFile& file,
                                                          const CudaModelOptions& options,
                                                          std::shared_ptr<const Device> device) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CudaRunner> runner, CudaRunner::Load(file, options, device));
  Digest128 probe;
  for (const SyntheticSpec& spec : ProbeSpecs()) {
    BATON_ASSIGN_OR_RETURN(const Digest128 one, ProbeOnDevice(spec, device));
    probe = DigestChain(probe, &one, sizeof(one));
  }
  const std::string rounded =
      IsRounded(file, options.weights) ? absl::StrCat("-", ToAbsl(WeightsName(options.weights))) : "";
  runner->set_fingerprint(absl::StrFormat("cuda-sm%d-bf16-v%d/kv:%s/weights:%s%s/probe:%s", device->capability(),
                                          kCudaNumericsVersion, runner->kv_layout().ToString(),
                                          file.WeightsDigest().ToHex(), rounded, probe.ToHex()));
  return runner;
}

}  // namespace baton::engine::cuda
