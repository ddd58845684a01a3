// The fingerprint: everything that a row's bits depend on, as one string.
#ifndef BATON_ENGINE_MODEL_FINGERPRINT_H_
#define BATON_ENGINE_MODEL_FINGERPRINT_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/digest.h"
#include "common/kv_layout.h"
#include "engine/kernels/kernel_table.h"
#include "engine/model/synthetic_model.h"
#include "engine/model_options.h"
#include "engine/model_runner.h"

namespace baton::engine {

// Digest of KV and logits of a small fixed model, computed here and now. Machines whose bits would differ have
// different digests.
Digest128 ProbeNumerics(Numerics numerics, KvDtype kv_dtype, const kernels::KernelTable& table);

// The parts of the probe, for runners of other kernels. Its models have together every format of quantized weights and
// every feature of ModelConfig.
std::vector<SyntheticSpec> ProbeSpecs();
// Most rows of its steps, and the blocks that it needs.
inline constexpr int kProbeChunk = 89;
int32_t ProbeBlockCount(const KvLayout& layout);
// Runs the probe's tokens and returns the digest of their logits. `runner`, of one of the models, has a pool of
// ProbeBlockCount blocks, whose bytes are all zero; their digest is the other half of the probe.
Digest128 ProbeLogits(ModelRunner& runner);

struct WeightsIdentity {
  // Digest of the file's weights.
  Digest128 digest;
  // The precision to which its float matrices are rounded at load; empty: none is.
  std::string_view rounded_to;
};

// "exact-v2/kv:.../weights:.../probe:...". Everywhere the part "weights:" says which model it is, and nothing else does
// (router/fingerprints.h).
std::string MakeFingerprint(const WeightsIdentity& weights, const KvLayout& layout, Numerics numerics,
                            const Digest128& probe);

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_FINGERPRINT_H_
