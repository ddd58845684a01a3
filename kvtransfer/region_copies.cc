#include "kvtransfer/region_copies.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "common/status.h"

namespace baton::kvtransfer {

absl::StatusOr<std::unique_ptr<RegionCopies>> RegionCopies::Create(MemoryAccess* memory) {
  auto copies = absl::WrapUnique(new RegionCopies(memory));
  if (memory == nullptr) return copies;
  BATON_ASSIGN_OR_RETURN(copies->stream_, memory->CreateStream());
  BATON_ASSIGN_OR_RETURN(copies->staging_, memory->AllocateStaging(kStagingBytes));
  return copies;
}

RegionCopies::~RegionCopies() {
  if (stream_ != nullptr) memory_->DestroyStream(stream_);
}

absl::Status RegionCopies::In(uint8_t* to, absl::Span<const uint8_t> from) {
  if (memory_ == nullptr) {
    std::memcpy(to, from.data(), from.size());
    return absl::OkStatus();
  }
  BATON_RETURN_IF_ERROR(memory_->CopyIn(to, from, stream_));
  return memory_->Synchronize(stream_);
}

absl::Status RegionCopies::Out(absl::Span<uint8_t> to, const uint8_t* from) {
  if (memory_ == nullptr) {
    std::memcpy(to.data(), from, to.size());
    return absl::OkStatus();
  }
  for (size_t offset = 0; offset < to.size(); offset += kStagingBytes) {
    const size_t bytes = std::min(kStagingBytes, to.size() - offset);
    BATON_RETURN_IF_ERROR(memory_->CopyOut({staging_->bytes(), bytes}, from + offset, stream_));
    BATON_RETURN_IF_ERROR(memory_->Synchronize(stream_));
    std::memcpy(to.data() + offset, staging_->bytes(), bytes);
  }
  return absl::OkStatus();
}

absl::Status RegionCopies::Append(std::string& to, const uint8_t* from, size_t bytes) {
  // Bytes of the host need no zeroed room first.
  if (memory_ == nullptr) {
    to.append(reinterpret_cast<const char*>(from), bytes);
    return absl::OkStatus();
  }
  const size_t begin = to.size();
  to.resize(begin + bytes);
  return Out({reinterpret_cast<uint8_t*>(to.data()) + begin, bytes}, from);
}

}  // namespace baton::kvtransfer
