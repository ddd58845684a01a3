// Zeroed memory from the operating system, in huge pages where it gives them. For weights and scratch.
#ifndef BATON_ENGINE_KERNELS_ALIGNED_BUFFER_H_
#define BATON_ENGINE_KERNELS_ALIGNED_BUFFER_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/check.h"

namespace baton::engine::kernels {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BATON_CHECK(p != MAP_FAILED) << "out of memory: " << bytes << " bytes";
    // Only advice: small pages work too.
    if (bytes >= kHugePageBytes) madvise(p, bytes, MADV_HUGEPAGE);
    data_ = static_cast<uint8_t*>(p);
  }
  ~AlignedBuffer() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Takes the pages from the system now: for scratch that a full step uses to its end, so that a process has all of
  // that memory from its start, and no request waits for it. Only before anything is written.
  void Touch() {
    if (data_ != nullptr) std::memset(data_, 0, bytes_);
  }

  // Aligned to a page.
  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  static constexpr size_t kHugePageBytes = 2u << 20;

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_ALIGNED_BUFFER_H_
