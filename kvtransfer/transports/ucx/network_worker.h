// The UCX workers that reach other machines.
//
// Each end has a worker of its own for reading and one for serving: UCX pairs the endpoints between two workers, and
// closing one as a reader must not cut the other's reads.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_NETWORK_WORKER_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_NETWORK_WORKER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvtransfer/transports/ucx/tcp_device.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {

// What UCX sends and receives by one system call. Its own default for sending is 8 KiB, and reaches a third of the
// bandwidth; beyond 64 KiB the reader copies out of a colder cache.
inline constexpr size_t kTcpSegmentBytes = 64u << 10;

// UNAVAILABLE when none of the device's ports is free.
absl::StatusOr<std::unique_ptr<UcxWorker>> MakeTcpWorker(const TcpDevice& device);

// UCX's names of the ways over InfiniBand or RoCE. FAILED_PRECONDITION where UCX finds no adapter. The environment's
// UCX_NET_DEVICES names the adapters, as with every program that uses UCX. A test without an adapter names another
// network of UCX's by BATON_TEST_RDMA_NETWORK, such as tcp.
absl::StatusOr<std::string> FindRdmaNetwork();
// Over the network that was found.
absl::StatusOr<std::unique_ptr<UcxWorker>> MakeRdmaWorker(const std::string& network);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_NETWORK_WORKER_H_
