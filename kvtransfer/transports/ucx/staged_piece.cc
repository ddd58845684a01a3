#include "kvtransfer/transports/ucx/staged_piece.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "common/status.h"
#include "kvtransfer/transports/ucx/piece_wire.h"

namespace baton::kvtransfer {
namespace {

// 256 MiB: as much as 64 readers have asked for that take nothing.
constexpr size_t kMaxStagingBuffers = 64 * kMaxPieces;

uint64_t FragmentBytesAt(uint64_t offset, uint64_t piece_bytes) {
  return std::min<uint64_t>(kFragmentBytes, piece_bytes - offset);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagedPieces>> StagedPieces::Create(MemoryAccess& memory) {
  auto pieces = absl::WrapUnique(new StagedPieces(memory));
  for (MemoryAccess::Stream& stream : pieces->streams_) {
    BATON_ASSIGN_OR_RETURN(stream, memory.CreateStream());
  }
  return pieces;
}

StagedPieces::~StagedPieces() {
  for (MemoryAccess::Stream stream : streams_) {
    if (stream != nullptr) memory_.DestroyStream(stream);
  }
}

absl::StatusOr<std::shared_ptr<MemoryAccess::Staging>> StagedPieces::TakeBuffer() {
  for (const auto& buffer : buffers_) {
    if (buffer.use_count() == 1) return buffer;
  }
  if (buffers_.size() >= kMaxStagingBuffers)
    return absl::ResourceExhaustedError("too many pieces are on their way out");
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<MemoryAccess::Staging> buffer, memory_.AllocateStaging(kMaxPieceBytes));
  buffers_.push_back(std::move(buffer));
  return buffers_.back();
}

absl::Status StagedPieces::Send(absl::Span<const uint8_t> piece, const SendFragment& send) {
  BATON_ASSIGN_OR_RETURN(const std::shared_ptr<MemoryAccess::Staging> buffer, TakeBuffer());
  const auto copy = [&](uint64_t offset, size_t stream) {
    if (offset >= piece.size()) return absl::OkStatus();
    const uint64_t bytes = FragmentBytesAt(offset, piece.size());
    return memory_.CopyOut({buffer->bytes() + offset, bytes}, piece.data() + offset, streams_[stream]);
  };
  absl::Status status = copy(0, 0);
  size_t stream = 0;
  for (uint64_t offset = 0; offset < piece.size() && status.ok(); offset += kFragmentBytes) {
    const size_t next = (stream + 1) % kStreams;
    status.Update(copy(offset + kFragmentBytes, next));
    status.Update(memory_.Synchronize(streams_[stream]));
    // The last reference of a fragment gives the buffer back.
    if (status.ok()) {
      status = send(offset, {buffer->bytes() + offset, FragmentBytesAt(offset, piece.size())}, [buffer] {});
    }
    stream = next;
  }
  // After an error a copy may still be under way.
  if (!status.ok()) memory_.Synchronize(streams_[stream]).IgnoreError();
  return status;
}

}  // namespace baton::kvtransfer
