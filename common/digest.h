// Digests of KV blocks in host memory and of model files: XXH3-128 (xxhash 0.8). They detect accidents, not attackers:
// see sip_hash.h.
#ifndef BATON_COMMON_DIGEST_H_
#define BATON_COMMON_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace baton {

struct Digest128 {
  uint64_t high = 0;
  uint64_t low = 0;

  std::string ToHex() const;
  friend bool operator==(const Digest128&, const Digest128&) = default;
  friend auto operator<=>(const Digest128&, const Digest128&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Digest128& d) {
    return H::combine(std::move(h), d.high, d.low);
  }
};

Digest128 DigestBytes(const void* data, size_t bytes);

// The digest of `parent` followed by the bytes: links a chain.
Digest128 DigestChain(const Digest128& parent, const void* data, size_t bytes);

}  // namespace baton

#endif  // BATON_COMMON_DIGEST_H_
