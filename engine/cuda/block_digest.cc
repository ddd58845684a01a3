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
  const size_t bytes = LaunchFor(block_bytes).grid_x * sizeof(WordSums);
  BATON_ASSIGN_OR_RETURN(digest.sums_, DeviceBuffer::Allocate(device, bytes));
  BATON_ASSIGN_OR_RETURN(digest.host_sums_, PinnedBuffer::Allocate(device, bytes));
  return digest;
}

Digest128 BlockDigest::Take(CUdeviceptr block, const Stream& stream) const {
  device_->MakeCurrent();
  const Launch launch = LaunchFor(block_bytes_);
  stream.Launch(kernel_, {.x = launch.grid_x, .threads = launch.threads},
                DigestParams{.block = std::bit_cast<const uint64_t*>(block),
                             .sums = sums_.at<uint64_t>(),
                             .words = static_cast<int32_t>(block_bytes_ / kDigestWordBytes)});
  stream.CopyToHost(host_sums_.at<void>(), sums_.address(), sums_.bytes());
  stream.Synchronize();
  WordSums sums;
  for (uint32_t i = 0; i < launch.grid_x; ++i) {
    const WordSums& of_part = host_sums_.at<WordSums>()[i];
    sums.first += of_part.first;
    sums.second += of_part.second;
  }
  const uint64_t low = MixBits(sums.first + block_bytes_ * kDigestStep);
  return {.high = MixBits(sums.second ^ low), .low = low};
}

}  // namespace baton::engine::cuda
