// RDMA for tests on a machine without an adapter.
#ifndef BATON_KVTRANSFER_TESTING_RDMA_OVER_LOOPBACK_H_
#define BATON_KVTRANSFER_TESTING_RDMA_OVER_LOOPBACK_H_

#include <cstdlib>

namespace baton::kvtransfer {

// This process and its children reach peers of TransportKind::kRdma over loopback, by the calls of UCX that are made
// for adapters. Before the first such transport.
inline void UseLoopbackForRdma() {
  setenv("BATON_TEST_RDMA_NETWORK", "tcp", /*overwrite=*/1);
  setenv("UCX_NET_DEVICES", "lo", /*overwrite=*/1);
}

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_RDMA_OVER_LOOPBACK_H_
