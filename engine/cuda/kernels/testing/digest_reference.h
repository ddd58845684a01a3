// The words of params.h and block_digest.h about a block's digest, as plain C++.
#ifndef BATON_ENGINE_CUDA_KERNELS_TESTING_DIGEST_REFERENCE_H_
#define BATON_ENGINE_CUDA_KERNELS_TESTING_DIGEST_REFERENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/digest.h"
#include "engine/cuda/kernels/params.h"

namespace baton::engine::cuda {

using DigestSums = std::array<uint64_t, 2>;

inline uint64_t DefinedMix(uint64_t v) {
  v ^= v >> 30;
  v *= kDigestFactor1;
  v ^= v >> 27;
  v *= kDigestFactor2;
  return v ^ (v >> 31);
}

// The sums of the whole block, whose size is a multiple of 16 bytes.
inline DigestSums DefinedSums(const std::vector<uint8_t>& block) {
  DigestSums sums = {0, 0};
  for (size_t i = 0; i < block.size() / 16; ++i) {
    uint64_t halves[2];
    std::memcpy(halves, block.data() + 16 * i, sizeof(halves));
    const uint64_t x = DefinedMix(halves[0] + (i + 1) * kDigestStep);
    const uint64_t y = DefinedMix(halves[1] ^ x);
    sums[0] += y;
    const uint64_t z = (x ^ y) * kDigestFactor1;
    sums[1] += z ^ (z >> 32);
  }
  return sums;
}

inline Digest128 DefinedDigest(const std::vector<uint8_t>& block) {
  const DigestSums sums = DefinedSums(block);
  Digest128 digest;
  digest.low = DefinedMix(sums[0] + block.size() * kDigestStep);
  digest.high = DefinedMix(sums[1] ^ digest.low);
  return digest;
}

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_KERNELS_TESTING_DIGEST_REFERENCE_H_
