// The memory of a worker's KV blocks, which may be the host's or a device's. The engine and both ends of a hand-off
// know a pool by this interface: they name blocks and never touch their bytes. Only what computes the KV (a model
// runner) and what moves it (a transport) asks where the pool lies.
#ifndef BATON_COMMON_KV_POOL_H_
#define BATON_COMMON_KV_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"

namespace baton {

enum class MemoryKind : uint8_t { kHost, kDevice };

// A contiguous range of one memory.
struct MemoryRange {
  MemoryKind kind = MemoryKind::kHost;
  // An address of that memory: the host may only follow it where `kind` is kHost.
  uint8_t* base = nullptr;
  size_t bytes = 0;

  // The range as host memory. CHECKs that it is.
  absl::Span<uint8_t> host() const;
};

// Thread-safe as far as blocks are not shared: calls for different blocks may come from different threads. While a call
// for a block runs, no step and no read of a hand-off may write this block.
class KvPool {
 public:
  virtual ~KvPool() = default;
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  size_t block_bytes() const { return block_bytes_; }
  int32_t block_count() const { return block_count_; }
  // Block b begins at b * block_bytes(), here and in the offsets of a hand-off.
  const MemoryRange& memory() const { return memory_; }

  // Sets every byte of a block to zero. CHECKs that the block exists, as Digest does.
  void Zero(BlockId block) { DoZero(OffsetOf(block)); }
  // The digest of a block as it is now, by which a reader can tell whether it has the same bytes. Each kind of pool has
  // a function of its own: DigestBytes where the block is in host memory, another where a device takes it. Equal bytes
  // have equal digests in all pools of one fingerprint, and KV moves between no others.
  Digest128 Digest(BlockId block) const { return Digests(absl::MakeConstSpan(&block, 1)).front(); }
  // Those of several blocks, in their order. A device takes them together, for little more than one.
  std::vector<Digest128> Digests(absl::Span<const BlockId> blocks) const;

 protected:
  // The range is a whole number of blocks.
  KvPool(const MemoryRange& memory, size_t block_bytes);

 private:
  // Both act on blocks by where they begin.
  virtual void DoZero(size_t offset) = 0;
  virtual void DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const = 0;

  size_t OffsetOf(BlockId block) const;

  const MemoryRange memory_;
  const size_t block_bytes_;
  const int32_t block_count_;
};

// A pool in host memory, which the caller owns and which outlives the pool.
class HostKvPool final : public KvPool {
 public:
  HostKvPool(absl::Span<uint8_t> memory, size_t block_bytes);

 private:
  void DoZero(size_t offset) override;
  void DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const override;
};

}  // namespace baton

#endif  // BATON_COMMON_KV_POOL_H_
