// SipHash-2-4 with 128 bits of output (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012, and their
// reference code for the long output). Whoever does not know the key can neither predict a hash nor find two inputs of
// equal hash, so it names what strangers choose. 80 bytes take about 0.1 us.
#ifndef BATON_COMMON_SIP_HASH_H_
#define BATON_COMMON_SIP_HASH_H_

#include <cstddef>
#include <cstdint>

#include "common/digest.h"

namespace baton {

// The key's bytes 0 to 7 and 8 to 15, little-endian.
struct SipKey {
  uint64_t first = 0;
  uint64_t second = 0;
};

// `low` is the output's bytes 0 to 7, `high` the others, little-endian.
Digest128 SipHash128(const SipKey& key, const void* data, size_t bytes);

}  // namespace baton

#endif  // BATON_COMMON_SIP_HASH_H_
