// Digests of KV blocks that a device takes of its own memory, so that a few bytes cross the bus in place of a block.
//
// A digest is made of two sums over the 16-byte words of a block, each with its position (kernels/params.h). Addition
// modulo 2^64 has no order, so however the words are shared out, the bits are the same:
//   low = mix(sums[0] + bytes * kDigestStep), high = mix(sums[1] ^ low).
//
// What it detects. The two terms of a word are a one-to-one function of its 128 bits, and so is the digest of the two
// sums. Whatever changes within one aligned word of 16 bytes, a bit or all of them, therefore changes the digest.
// Changes of several words (swapped words or rows, zeroed ranges, the end of an older copy) go unnoticed only where the
// differences of their terms cancel in both sums at once. There is no proof of how rare that is: if mixed bits are like
// random ones, the chance is 2^-128. An attacker can make it happen (common/digest.h).
//
// It is not the digest that a host takes. KV moves only between equal fingerprints, so both ends of a hand-off are
// devices with this function: a fingerprint holds digests of the probe's blocks (cuda_model.cc), and changes with it.
#ifndef BATON_ENGINE_CUDA_BLOCK_DIGEST_H_
#define BATON_ENGINE_CUDA_BLOCK_DIGEST_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/digest.h"
#include "engine/cuda/device.h"

namespace baton::engine::cuda {

// Used by one thread at a time.
class BlockDigest {
 public:
  static constexpr size_t kMostTogether = 64;

  // For blocks of that many bytes, a multiple of 16. RESOURCE_EXHAUSTED; NOT_FOUND when the device's images lack the
  // kernel. The device outlives it.
  static absl::StatusOr<BlockDigest> Create(const Device& device, size_t block_bytes);

  // The digests of the blocks that begin so many bytes behind `base`, at multiples of 16. The device takes them after
  // all that is on the stream. The call waits for kMostTogether of them at a time.
  void Take(CUdeviceptr base, absl::Span<const size_t> offsets, absl::Span<Digest128> digests,
            const Stream& stream) const;

 private:
  BlockDigest() = default;

  // At most kMostTogether.
  void TakeTogether(CUdeviceptr base, absl::Span<const size_t> offsets, absl::Span<Digest128> digests,
                    const Stream& stream) const;

  const Device* device_ = nullptr;
  CUfunction kernel_ = nullptr;
  size_t block_bytes_ = 0;
  // DigestParams::sums of each of kMostTogether blocks, and a copy.
  DeviceBuffer sums_;
  PinnedBuffer host_sums_;
};

}  // namespace baton::engine::cuda

#endif  // BATON_ENGINE_CUDA_BLOCK_DIGEST_H_
