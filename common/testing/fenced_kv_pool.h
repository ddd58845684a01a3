// A KV pool that stands in for a device's: the host cannot touch its bytes, and whoever tries is stopped by the
// processor. Zero and Digests lift that while they work, and are counted.
#ifndef BATON_COMMON_TESTING_FENCED_KV_POOL_H_
#define BATON_COMMON_TESTING_FENCED_KV_POOL_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/check.h"
#include "common/kv_pool.h"

namespace baton {

// Used by one thread. The bytes are garbage at first.
class FencedKvPool final : public KvPool {
 public:
  FencedKvPool(int32_t block_count, size_t block_bytes)
      : KvPool(Map(static_cast<size_t>(block_count) * block_bytes), block_bytes) {
    OnDevice([](absl::Span<uint8_t> bytes) { std::memset(bytes.data(), 0xa5, bytes.size()); });
  }
  ~FencedKvPool() override { munmap(memory().base, memory().bytes); }

  // Runs what the device does by itself, a step or a copy: only meanwhile the bytes can be reached.
  void OnDevice(absl::FunctionRef<void(absl::Span<uint8_t> bytes)> work) const {
    Protect(PROT_READ | PROT_WRITE);
    work(absl::MakeSpan(memory().base, memory().bytes));
    Protect(PROT_NONE);
  }

  int zeroed() const { return zeroed_; }
  int digested() const { return digested_; }

 private:
  static MemoryRange Map(size_t bytes) {
    void* const base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BATON_CHECK(base != MAP_FAILED) << bytes;
    return {.kind = MemoryKind::kDevice, .base = static_cast<uint8_t*>(base), .bytes = bytes};
  }

  void Protect(int access) const { BATON_CHECK(mprotect(memory().base, memory().bytes, access) == 0); }

  void DoZero(size_t offset) override {
    ++zeroed_;
    const std::vector<uint8_t> zeros(block_bytes());
    OnDevice([&](absl::Span<uint8_t> bytes) { std::copy(zeros.begin(), zeros.end(), bytes.begin() + offset); });
  }
  void DoDigests(absl::Span<const size_t> offsets, absl::Span<Digest128> digests) const override {
    digested_ += static_cast<int>(offsets.size());
    OnDevice([&](absl::Span<uint8_t> bytes) {
      for (size_t i = 0; i < offsets.size(); ++i) digests[i] = DigestBytes(bytes.data() + offsets[i], block_bytes());
    });
  }

  int zeroed_ = 0;
  mutable int digested_ = 0;
};

}  // namespace baton

#endif  // BATON_COMMON_TESTING_FENCED_KV_POOL_H_
