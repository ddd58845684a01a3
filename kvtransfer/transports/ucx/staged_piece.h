// Pieces of a device's memory on their way out: copied to the host's memory, fragment by fragment, while the fragments
// before them are sent.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_STAGED_PIECE_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_STAGED_PIECE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/memory_access.h"

namespace baton::kvtransfer {

// Used by one thread, and outlives what it handed out: buffers come back on that thread.
class StagedPieces {
 public:
  // Sends a fragment that begins so many bytes into the piece. The bytes stay until `sent` is called or destroyed.
  using SendFragment =
      std::function<absl::Status(uint64_t offset, absl::Span<const uint8_t> bytes, std::function<void()> sent)>;

  // The memory outlives this object.
  static absl::StatusOr<std::unique_ptr<StagedPieces>> Create(MemoryAccess& memory);
  ~StagedPieces();

  // `piece` lies in the device and has at most kMaxPieceBytes. Returns when it has been copied, so that its bytes may
  // change. RESOURCE_EXHAUSTED when kMaxStagingBuffers are on their way out; else what the memory or `send` says.
  absl::Status Send(absl::Span<const uint8_t> piece, const SendFragment& send);

 private:
  explicit StagedPieces(MemoryAccess& memory) : memory_(memory) {}

  absl::StatusOr<std::shared_ptr<MemoryAccess::Staging>> TakeBuffer();

  // Two, so that one copies while the other is waited for.
  static constexpr size_t kStreams = 2;

  MemoryAccess& memory_;
  std::array<MemoryAccess::Stream, kStreams> streams_{};
  // Of a piece each. A buffer is free when nobody else refers to it.
  std::vector<std::shared_ptr<MemoryAccess::Staging>> buffers_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_STAGED_PIECE_H_
