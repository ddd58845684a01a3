// The region of a peer on this host, mapped into this process. Reading it needs nothing from the peer, which may even
// be dead: the memory stays until the last mapping goes.
//
// The mapping is writable (UCX maps no other way): workers of one host are one trust domain.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_SHM_MAPPING_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_SHM_MAPPING_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kvtransfer/transport_address.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {

// Makes the UCX worker that maps regions of this host and whose own memory can be mapped. It cannot be the worker of
// the TCP endpoints: ucp_rkey_ptr works only on endpoints over shared memory alone, which cannot have peer error
// handling.
absl::StatusOr<std::unique_ptr<UcxWorker>> MakeShmWorker();

class ShmMapping {
 public:
  // UNAVAILABLE when the region is not on this host, cannot be mapped, or is not the one that the address names. The
  // worker outlives the mapping.
  static absl::StatusOr<std::unique_ptr<ShmMapping>> Map(UcxWorker& worker, const TransportAddress& address);
  ~ShmMapping();
  ShmMapping(const ShmMapping&) = delete;
  ShmMapping& operator=(const ShmMapping&) = delete;

  // The region's first byte; RegionLayout::total_bytes are mapped.
  const uint8_t* base() const { return base_; }

  // Maps the pages of a range that will be read, and their neighbours', thousands in one call. Without it every page of
  // SysV memory costs a fault of its own, and the faults take as long as the copy.
  void Populate(uint64_t offset, uint64_t bytes);

 private:
  explicit ShmMapping(UcxWorker& worker) : worker_(worker) {}
  absl::Status Init(const TransportAddress& address);

  UcxWorker& worker_;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h rkey_ = nullptr;
  const uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0;
  // One flag for each piece: whether it is mapped already.
  std::vector<bool> populated_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_SHM_MAPPING_H_
