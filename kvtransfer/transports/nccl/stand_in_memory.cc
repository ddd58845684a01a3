#include "kvtransfer/transports/nccl/stand_in_memory.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "kvtransfer/mapped_region.h"

namespace baton::kvtransfer {
namespace {

class StandInMemory final : public MemoryAccess {
 public:
  explicit StandInMemory(void* library) {
    create_ = reinterpret_cast<decltype(create_)>(dlsym(library, "batonStandInStreamCreate"));
    call_ = reinterpret_cast<decltype(call_)>(dlsym(library, "batonStandInStreamCall"));
    destroy_ = reinterpret_cast<decltype(destroy_)>(dlsym(library, "batonStandInStreamDestroy"));
  }
  bool is_complete() const { return create_ != nullptr && call_ != nullptr && destroy_ != nullptr; }

  absl::StatusOr<uint8_t*> Allocate(size_t bytes) override {
    BATON_CHECK(memory_ == nullptr);
    BATON_ASSIGN_OR_RETURN(memory_, MappedRegion::Create(bytes));
    return memory_->base();
  }
  // Those who move bytes by the host have no use for NCCL.
  absl::StatusOr<std::unique_ptr<Staging>> AllocateStaging(size_t /*bytes*/) override { return NotNeeded(); }
  absl::Status CopyIn(uint8_t* /*to*/, absl::Span<const uint8_t> /*from*/, Stream /*stream*/) override {
    return NotNeeded();
  }
  absl::Status CopyOut(absl::Span<uint8_t> /*to*/, const uint8_t* /*from*/, Stream /*stream*/) override {
    return NotNeeded();
  }
  absl::Status Synchronize(Stream /*stream*/) override { return NotNeeded(); }
  absl::StatusOr<Stream> CreateStream() override { return create_(); }
  absl::Status CallWhenDone(Stream stream, void (*function)(void*), void* argument) override {
    call_(stream, function, argument);
    return absl::OkStatus();
  }
  void DestroyStream(Stream stream) override { destroy_(stream); }

 private:
  static absl::Status NotNeeded() {
    return absl::UnimplementedError("the stand-in of NCCL copies nothing by the host");
  }

  void* (*create_)() = nullptr;
  void (*call_)(void* stream, void (*function)(void*), void* argument) = nullptr;
  void (*destroy_)(void* stream) = nullptr;
  std::unique_ptr<MappedRegion> memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryAccess>> MakeStandInMemory(const NcclApi& api) {
  auto memory = std::make_unique<StandInMemory>(api.handle);
  if (!memory->is_complete()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--transport nccl moves KV between the memories of GPUs, and this worker's KV is in host memory, ",
                     "which NCCL ", NcclVersionName(api.version), " (", api.library,
                     ") does not read: choose --transport auto, shm, tcp or grpc"));
  }
  return std::unique_ptr<MemoryAccess>(std::move(memory));
}

}  // namespace baton::kvtransfer
