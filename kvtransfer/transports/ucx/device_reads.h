// Reads of a region in the memory of a device of this host: it is opened (CUDA IPC) and copied from device to device,
// so that reading needs nothing from its owner. What shared memory is for regions of the host, for those of devices.
//
// Copies run on a stream of their own, in batches: a batch takes turns among the reads, copy by copy, and a read has
// completed when the batch of its last copy has.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_DEVICE_READS_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_DEVICE_READS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/memory_access.h"
#include "kvtransfer/region_copies.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transport.h"
#include "kvtransfer/transport_address.h"

namespace baton::kvtransfer {

// The most that one batch copies, and how many copies it may have; with two batches on their way the stream is busy
// while the next one is made.
inline constexpr size_t kDeviceBatchBytes = 16u << 20;
inline constexpr int kDeviceBatchCopies = 64;
inline constexpr uint64_t kDeviceBatchesInFlight = 2;
// The most bytes of one copy.
inline constexpr uint64_t kDeviceCopyBytes = 1u << 20;

class DeviceReads {
 public:
  struct PendingRead {
    ReadId read = 0;
    PeerId peer = 0;
    // The first byte of this worker's region.
    uint8_t* local = nullptr;
    // Checked and coalesced.
    std::vector<CopyRange> ranges;
  };

  // `wake` is called from any thread when Poll has something to do. The memory outlives this object.
  static absl::StatusOr<std::unique_ptr<DeviceReads>> Create(MemoryAccess& memory, std::function<void()> wake);
  // Waits for copies that have begun. Whoever opens the region later is refused.
  ~DeviceReads();
  DeviceReads(const DeviceReads&) = delete;
  DeviceReads& operator=(const DeviceReads&) = delete;

  // Lets others open the region, which the memory has allocated. UNAVAILABLE when they cannot.
  absl::Status Expose(uint8_t* base, const RegionLayout& layout, const Id128& nonce);
  // The region's name for its address; empty unless it is exposed.
  const std::string& share() const { return share_; }

  // UNAVAILABLE when the region is not on this host, cannot be opened, or is not the one that the address names.
  absl::Status Connect(PeerId peer, const TransportAddress& address);
  void Add(PendingRead read);
  void Poll(std::vector<ReadCompletion>& completions);
  // Its reads complete with CANCELLED, once their copies that have begun are over.
  void Disconnect(PeerId peer);

  // Reads of this peer that have not been reported yet.
  size_t in_flight(PeerId peer) const;
  // Whether Poll has something to do without being woken.
  bool NeedsPoll() const;

 private:
  struct Read {
    PendingRead asked;
    // Open until the read's last copy has ended.
    std::shared_ptr<MemoryAccess::Opened> remote;
    size_t next_range = 0;
    // Bytes of that range for which a copy has begun.
    uint64_t begun_bytes = 0;
    // The batch of its last copy so far; 0: it has none.
    uint64_t batch = 0;
    absl::Status status;

    bool all_begun() const { return next_range == asked.ranges.size(); }
    void End(const absl::Status& why) {
      status.Update(why);
      next_range = asked.ranges.size();
    }
  };

  DeviceReads(MemoryAccess& memory, std::function<void()> wake) : memory_(memory), wake_(std::move(wake)) {}

  // Whether the opened memory has the region's label, and its end.
  absl::Status CheckRegion(const uint8_t* base, const TransportAddress& address);
  bool CanBegin() const;
  void BeginBatch();
  // Begins the next copy of the read, and returns its length.
  uint64_t BeginCopy(Read& read);
  uint64_t ended_batches() const { return ended_batches_.load(std::memory_order_acquire); }

  MemoryAccess& memory_;
  const std::function<void()> wake_;
  std::unique_ptr<RegionCopies> labels_;
  MemoryAccess::Stream stream_ = nullptr;
  // These two are of this worker's region, once it is exposed.
  std::string share_;
  uint8_t* label_ = nullptr;
  absl::flat_hash_map<PeerId, std::shared_ptr<MemoryAccess::Opened>> peers_;
  // In the order of their turns.
  std::list<Read> reads_;
  uint64_t begun_batches_ = 0;
  std::atomic<uint64_t> ended_batches_ = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_DEVICE_READS_H_
