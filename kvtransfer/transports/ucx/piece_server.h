// The owner's end of TCP reads. It keeps no state about its readers: a request is answered within UCX's progress call,
// and when a reader dies, UCX drops the queued messages together with the endpoint.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_SERVER_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_SERVER_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/memory_access.h"
#include "kvtransfer/read_grants.h"
#include "kvtransfer/region_layout.h"
#include "kvtransfer/transports/ucx/piece_wire.h"
#include "kvtransfer/transports/ucx/staged_piece.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {

class PieceServer {
 public:
  // `memory` is where the region lies; null: host memory. `grants` says who may read what. Both outlive the server.
  static absl::StatusOr<std::unique_ptr<PieceServer>> Create(std::unique_ptr<UcxWorker> worker, MemoryAccess* memory,
                                                             ReadGrants& grants);

  // The region, which outlives the server. Requests are refused that name another nonce, or bytes that were not granted
  // to the fetch that they name. What lies behind the region holds no data: anybody may read it.
  void Expose(const Id128& nonce, const uint8_t* base, const RegionLayout& layout);

  UcxWorker& worker() { return *worker_; }

 private:
  PieceServer(std::unique_ptr<UcxWorker> worker, ReadGrants& grants) : worker_(std::move(worker)), grants_(grants) {}

  static ucs_status_t OnRequest(void* server, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                                const ucp_am_recv_param_t* param);
  void Serve(const void* header, size_t header_bytes, ucp_ep_h reader) const;
  // False when the request's bytes may not be read any more, or the reader is lost.
  bool SendStaged(const PieceRequest& request, ucp_ep_h reader) const;
  // Sends one fragment. False when the request's bytes may not be read any more, or the reader is lost.
  bool SendFragment(const PieceRequest& request, uint64_t offset, ucp_ep_h reader) const;
  void Refuse(const PieceRequest& request, ucp_ep_h reader) const;

  bool IsProbe(const PieceRequest& request) const {
    return request.fetch.is_zero() && layout_.IsProbe({.offset = request.offset, .bytes = request.bytes});
  }

  // Null where the region is host memory, which is sent from where it lies. It outlives the worker, whose messages are
  // in its buffers.
  std::unique_ptr<StagedPieces> staged_;
  std::unique_ptr<UcxWorker> worker_;
  ReadGrants& grants_;
  Id128 nonce_;
  const uint8_t* base_ = nullptr;
  RegionLayout layout_{0};
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_SERVER_H_
