// The bytes of Transport::Address. They end in a digest, so a damaged address is recognised. A forged one is not,
// because UCX's own parts cannot be validated: all peers must belong to one trust domain.
#ifndef BATON_KVTRANSFER_TRANSPORT_ADDRESS_H_
#define BATON_KVTRANSFER_TRANSPORT_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/ids.h"

namespace baton::kvtransfer {

struct TransportAddress {
  // Drawn when the region is made: no other region ever has the same.
  Id128 nonce;
  uint64_t region_bytes = 0;
  // The region's first byte in the owner's address space.
  uint64_t base = 0;
  // Equal in processes that can share memory; see HostIdentity. Empty when unknown.
  std::string host;
  // UCX's addresses; empty where the owner does not offer the path. The remote key belongs to shared memory only.
  std::string shm_worker;
  std::string shm_rkey;
  std::string tcp_worker;
  // host:port that serves reads over gRPC; empty where the owner does not.
  std::string grpc_target;
  // host:port that forms communicators of NCCL; empty where the owner does not.
  std::string nccl_target;
  // The name by which processes of this host open the region in the memory of a device (MemoryAccess::Share); empty
  // where it is in host memory or cannot be opened.
  std::string device_share;
  // UCX's address for reads over RDMA; empty where the owner does not offer them.
  std::string rdma_worker;
};

std::string EncodeAddress(const TransportAddress& address);

// INVALID_ARGUMENT on anything that EncodeAddress of this version or a former one did not write, or that breaks a
// bound.
absl::StatusOr<TransportAddress> DecodeAddress(std::string_view bytes);

// The kernel's boot and the IPC namespace: two processes with the same one may share memory. Empty when unknown.
std::string HostIdentity();

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORT_ADDRESS_H_
