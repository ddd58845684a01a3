#include "kvtransfer/transports/ucx/device_reads.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"

namespace baton::kvtransfer {

absl::StatusOr<std::unique_ptr<DeviceReads>> DeviceReads::Create(MemoryAccess& memory, std::function<void()> wake) {
  auto reads = absl::WrapUnique(new DeviceReads(memory, std::move(wake)));
  BATON_ASSIGN_OR_RETURN(reads->labels_, RegionCopies::Create(&memory));
  BATON_ASSIGN_OR_RETURN(reads->stream_, memory.CreateStream());
  return reads;
}

DeviceReads::~DeviceReads() {
  // It waits for the copies, and for the calls that tell of them.
  if (stream_ != nullptr) memory_.DestroyStream(stream_);
  constexpr std::array<uint8_t, sizeof(RegionLabel)> kNoLabel{};
  if (label_ != nullptr) labels_->In(label_, kNoLabel).IgnoreError();
}

absl::Status DeviceReads::Expose(uint8_t* base, const RegionLayout& layout, const Id128& nonce) {
  absl::StatusOr<std::string> share = memory_.Share();
  if (!share.ok()) {
    return absl::UnavailableError(absl::StrCat("other processes cannot read the memory of this device, which leaves ",
                                               "--transport tcp and grpc: ", share.status().message()));
  }
  const RegionLabel label = {.nonce = nonce};
  BATON_RETURN_IF_ERROR(
      labels_->In(base + layout.label_offset, {reinterpret_cast<const uint8_t*>(&label), sizeof(label)}));
  label_ = base + layout.label_offset;
  share_ = *std::move(share);
  return absl::OkStatus();
}

absl::Status DeviceReads::CheckRegion(const uint8_t* base, const TransportAddress& address) {
  const RegionLayout layout(address.region_bytes);
  RegionLabel label;
  uint8_t last = 0;
  absl::Status status = labels_->Out({reinterpret_cast<uint8_t*>(&label), sizeof(label)}, base + layout.label_offset);
  if (status.ok()) status = labels_->Out({&last, 1}, base + layout.total_bytes - 1);
  if (!status.ok()) return absl::UnavailableError(status.message());
  if (label.magic == RegionLabel::kMagic && label.nonce == address.nonce) return absl::OkStatus();
  return absl::UnavailableError("the peer's region is gone");
}

absl::Status DeviceReads::Connect(PeerId peer, const TransportAddress& address) {
  if (address.device_share.empty()) return absl::UnavailableError("the peer does not share the memory of a device");
  const std::string host = HostIdentity();
  if (host.empty() || host != address.host) {
    return absl::UnavailableError("the peer is on another host or in another IPC namespace");
  }
  absl::StatusOr<std::unique_ptr<MemoryAccess::Opened>> opened = memory_.Open(address.device_share);
  // Whatever it is, this peer cannot be reached so.
  if (!opened.ok()) return absl::UnavailableError(opened.status().message());
  BATON_RETURN_IF_ERROR(CheckRegion((*opened)->base(), address));
  peers_.emplace(peer, *std::move(opened));
  return absl::OkStatus();
}

void DeviceReads::Add(PendingRead read) {
  const auto peer = peers_.find(read.peer);
  BATON_CHECK(peer != peers_.end());
  Read entry;
  entry.asked = std::move(read);
  entry.remote = peer->second;
  reads_.push_back(std::move(entry));
}

uint64_t DeviceReads::BeginCopy(Read& read) {
  const CopyRange& range = read.asked.ranges[read.next_range];
  const uint64_t bytes = std::min(range.bytes - read.begun_bytes, kDeviceCopyBytes);
  const absl::Status begun =
      memory_.CopyWithin(read.asked.local + range.local_offset + read.begun_bytes,
                         read.remote->base() + range.remote_offset + read.begun_bytes, bytes, stream_);
  read.batch = begun_batches_;
  read.begun_bytes += bytes;
  if (read.begun_bytes == range.bytes) {
    ++read.next_range;
    read.begun_bytes = 0;
  }
  if (!begun.ok()) read.End(absl::UnavailableError(begun.message()));
  return bytes;
}

bool DeviceReads::CanBegin() const {
  return begun_batches_ - ended_batches() < kDeviceBatchesInFlight &&
         std::any_of(reads_.begin(), reads_.end(), [](const Read& read) { return !read.all_begun(); });
}

void DeviceReads::BeginBatch() {
  ++begun_batches_;
  uint64_t bytes = 0;
  int copies = 0;
  // How many reads in a row had nothing to begin.
  for (size_t idle = 0; idle < reads_.size() && bytes < kDeviceBatchBytes && copies < kDeviceBatchCopies;) {
    Read& read = reads_.front();
    if (read.all_begun()) {
      ++idle;
    } else {
      bytes += BeginCopy(read);
      ++copies;
      idle = 0;
    }
    reads_.splice(reads_.end(), reads_, reads_.begin());
  }
  const auto end = [](void* argument) {
    static_cast<DeviceReads*>(argument)->ended_batches_.fetch_add(1, std::memory_order_release);
    static_cast<DeviceReads*>(argument)->wake_();
  };
  if (memory_.CallWhenDone(stream_, end, this).ok()) return;
  // The stream tells nothing any more: it is waited for instead.
  const absl::Status status = memory_.Synchronize(stream_);
  for (Read& read : reads_) {
    if (read.batch == begun_batches_ && !status.ok()) read.End(absl::UnavailableError(status.message()));
  }
  ended_batches_.fetch_add(1, std::memory_order_release);
}

void DeviceReads::Poll(std::vector<ReadCompletion>& completions) {
  while (CanBegin()) BeginBatch();
  const uint64_t ended = ended_batches();
  reads_.remove_if([&](const Read& read) {
    if (!read.all_begun() || read.batch > ended) return false;
    completions.push_back({read.asked.read, read.status});
    return true;
  });
}

void DeviceReads::Disconnect(PeerId peer) {
  if (peers_.erase(peer) == 0) return;
  for (Read& read : reads_) {
    if (read.asked.peer == peer) read.End(absl::CancelledError("the peer was disconnected"));
  }
}

size_t DeviceReads::in_flight(PeerId peer) const {
  return static_cast<size_t>(
      std::count_if(reads_.begin(), reads_.end(), [peer](const Read& read) { return read.asked.peer == peer; }));
}

bool DeviceReads::NeedsPoll() const {
  const uint64_t ended = ended_batches();
  return CanBegin() || std::any_of(reads_.begin(), reads_.end(),
                                   [ended](const Read& read) { return read.all_begun() && read.batch <= ended; });
}

}  // namespace baton::kvtransfer
