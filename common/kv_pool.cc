#include "common/kv_pool.h"

#include <cstring>
#include <limits>

#include "common/check.h"

namespace baton {
namespace {

int32_t BlockCount(size_t bytes, size_t block_bytes) {
  BATON_CHECK(block_bytes > 0 && bytes % block_bytes == 0) << bytes << " bytes in blocks of " << block_bytes;
  const size_t count = bytes / block_bytes;
  BATON_CHECK(count <= static_cast<size_t>(std::numeric_limits<int32_t>::max())) << count;
  return static_cast<int32_t>(count);
}

}  // namespace

absl::Span<uint8_t> MemoryRange::host() const {
  BATON_CHECK(kind == MemoryKind::kHost) << "the memory is a device's";
  return absl::MakeSpan(base, bytes);
}

KvPool::KvPool(const MemoryRange& memory, size_t block_bytes)
    : memory_(memory), block_bytes_(block_bytes), block_count_(BlockCount(memory.bytes, block_bytes)) {}

size_t KvPool::OffsetOf(BlockId block) const {
  BATON_CHECK(block >= 0 && block < block_count_) << block;
  return static_cast<size_t>(block) * block_bytes_;
}

std::vector<Digest128> KvPool::Digests(absl::Span<const BlockId> blocks) const {
  std::vector<size_t> offsets;
  offsets.reserve(blocks.size());
  for (const BlockId block : blocks) offsets.push_back(OffsetOf(block));
  std::vector<Digest128> digests(blocks.size());
  DoDigests(offsets, absl::MakeSpan(digests));
  return digests;
}

HostKvPool::HostKvPool(absl::Span<uint8_t> memory, size_t block_bytes)
    : KvPool({.kind = MemoryKind::kHost, .base = memory.data(), .bytes = memory.size()}, block_bytes) {}

void HostKvPool::DoZero(size_t offset) { std::memset(memory().base + offset, 0, block_bytes()); }

void HostKvPool::DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const {
  for (size_t i = 0; i < offsets.size(); ++i) digests[i] = DigestBytes(memory().base + offsets[i], block_bytes());
}

}  // namespace baton
