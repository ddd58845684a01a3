// The owner's end of TCP reads. It keeps no state about its readers: a request is answered within UCX's progress call,
// and when a reader dies, UCX drops the queued messages together with the endpoint.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_TCP_SERVER_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_TCP_SERVER_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {

class TcpServer {
 public:
  static absl::StatusOr<std::unique_ptr<TcpServer>> Create(const std::string& net_devices);

  // What may be read from here on; outlives the server. Requests that name another nonce are refused.
  void Expose(const Id128& nonce, absl::Span<const uint8_t> memory);

  UcxWorker& worker() { return *worker_; }

 private:
  explicit TcpServer(std::unique_ptr<UcxWorker> worker) : worker_(std::move(worker)) {}

  static ucs_status_t OnRequest(void* server, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                                const ucp_am_recv_param_t* param);
  void Serve(const void* header, size_t header_bytes, ucp_ep_h reader) const;

  std::unique_ptr<UcxWorker> worker_;
  Id128 nonce_;
  absl::Span<const uint8_t> memory_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_TCP_SERVER_H_
