#include "engine/cuda/block_digest.h"

#include <limits>

#include "common/check.h"
#include "common/status.h"
#include "engine/cuda/kernels/launch.h"

namespace baton::engine::cuda {
namespace {

constexpr size_t kDigestWordBytes = 16;

struct WordSums {
  uint64_t first = 0;
  uint64_t second = 0;
};

uint64_t MixBits(uint64_t v) {
  v = (v ^ v >> 30) * kDigestFactor1;
  v = (v ^ v >> 27) * kDigestFactor2;
  return v ^ v >> 31;
}

// The digest of a block whose parts have these sums.
Digest128 DigestOf(absl::Span<const WordSums> parts, size_t block_bytes) {
  WordSums sums;
  for (const WordSums& part : parts) {
    sums.first += part.first;
    sums.second += part.second;
  }
  const uint64_t low = MixBits(sums.first + block_bytes * kDigestStep);
  return {.high = MixBits(sums.second ^ low), .low = low};
}

Launch LaunchFor(size_t block_bytes) { return DigestLaunch(static_cast<int32_t>(block_bytes / kDigestWordBytes)); }

}  // namespace

absl::StatusOr<BlockDigest> BlockDigest::Create(const Device& device, size_t block_bytes) {
  BATON_CHECK(block_bytes > 0 && block_bytes % kDigestWordBytes == 0 &&
              block_bytes / kDigestWordBytes <= size_t{std::numeric_limits<int32_t>::max()})
      << block_bytes;
  BlockDigest digest;
  digest.device_ = &device;
  digest.block_bytes_ = block_bytes;
  BATON_ASSIGN_OR_RETURN(digest.kernel_, device.Kernel("digest", 0));
  const size_t bytes = kMostTogether * LaunchFor(block_bytes).grid_x * sizeof(WordSums);
  BATON_ASSIGN_OR_RETURN(digest.sums_, DeviceBuffer::Allocate(device, bytes));
  BATON_ASSIGN_OR_RETURN(digest.host_sums_, PinnedBuffer::Allocate(device, bytes));
  return digest;
}

void BlockDigest::Take(CUdeviceptr base, absl::Span<const size_t> offsets, absl::Span<Digest128> digests,
                       const Stream& stream) const {
  for (size_t begin = 0; begin < offsets.size(); begin += kMostTogether) {
    TakeTogether(base, offsets.subspan(begin, kMostTogether), digests.subspan(begin, kMostTogether), stream);
  }
}

void BlockDigest::TakeTogether(CUdeviceptr base, absl::Span<const size_t> offsets, absl::Span<Digest128> digests,
                               const Stream& stream) const {
  device_->MakeCurrent();
  const Launch launch = LaunchFor(block_bytes_);
  const size_t sums_bytes = launch.grid_x * sizeof(WordSums);
  for (size_t i = 0; i < offsets.size(); ++i) {
    stream.Launch(kernel_, {.x = launch.grid_x, .threads = launch.threads},
                  DigestParams{.block = std::bit_cast<const uint64_t*>(base + offsets[i]),
                               .sums = sums_.at<uint64_t>(i * sums_bytes),
                               .words = static_cast<int32_t>(block_bytes_ / kDigestWordBytes)});
  }
  stream.CopyToHost(host_sums_.at<void>(), sums_.address(), offsets.size() * sums_bytes);
  stream.Synchronize();
  for (size_t i = 0; i < offsets.size(); ++i) {
    digests[i] = DigestOf(absl::MakeConstSpan(host_sums_.at<WordSums>(i * sums_bytes), launch.grid_x), block_bytes_);
  }
}

}  // namespace baton::engine::cuda
