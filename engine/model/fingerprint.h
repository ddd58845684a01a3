// What a row's bits depend on, as one string.
#ifndef BATON_ENGINE_MODEL_FINGERPRINT_H_
#define BATON_ENGINE_MODEL_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "common/digest.h"
#include "common/kv_layout.h"
#include "engine/kernels/kernel_table.h"
#include "engine/model_options.h"

namespace baton::engine {

// Digest of KV and logits of a small fixed model, computed here and now: machines that would differ in a bit differ in
// it.
Digest128 ProbeNumerics(Numerics numerics, KvDtype kv_dtype, const kernels::KernelTable& table);

struct WeightsIdentity {
  // Of the file.
  Digest128 digest;
  // The precision to which its float matrices are rounded at load; empty: none is.
  std::string_view rounded_to;
};

std::string MakeFingerprint(const WeightsIdentity& weights, const KvLayout& layout, Numerics numerics,
                            const Digest128& probe);

}  // namespace baton::engine

#endif  // BATON_ENGINE_MODEL_FINGERPRINT_H_
