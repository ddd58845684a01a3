// The fingerprint: everything that a row's bits depend on, as one string.
#ifndef BATON_ENGINE_MODEL_FINGERPRINT_H_
#define BATON_ENGINE_MODEL_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "common/digest.h"
#include "common/kv_layout.h"
#include "engine/kernels/kernel_table.h"
#include "engine/model_options.h"

namespace baton::engine {

// Digest of KV and logits of a small fixed model, computed here and now. Machines whose bits would differ have
// different digests.
Digest128 ProbeNumerics(Numerics numerics, KvDtype kv_dtype, const kernels::KernelTable& table);

struct WeightsIdentity {
  // Digest of the file's weights.
  Digest128 digest;
  // The precision to which its float matrices are rounded at load; empty: none is.
  std::string_view rounded_to;
};

std::string MakeFingerprint(const WeightsIdentity& weights, const KvLayout& layout, Numerics numerics,
                            const Digest128& probe);

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_FINGERPRINT_H_
