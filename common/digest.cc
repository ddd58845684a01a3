#include "common/digest.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "common/check.h"

namespace baton {

std::string Digest128::ToHex() const { return absl::StrFormat("%016x%016x", high, low); }

Digest128 DigestBytes(const void* data, size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

Digest128 DigestChain(const Digest128& parent, const void* data, size_t bytes) {
  XXH3_state_t* state = XXH3_createState();
  BATON_CHECK(state != nullptr);
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, &parent.high, sizeof(parent.high));
  XXH3_128bits_update(state, &parent.low, sizeof(parent.low));
  XXH3_128bits_update(state, data, bytes);
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return {hash.high64, hash.low64};
}

}  // namespace baton
