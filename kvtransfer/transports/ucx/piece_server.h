// The owner's end of reads over a network. It keeps no state about its readers but the offers that are open: a
// request is answered within UCX's progress call, and when a reader dies, UCX drops the queued messages together with
// the endpoint.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_SERVER_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_SERVER_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
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
  struct Options {
    // Where the region lies, if it has to be copied to the host before it is sent; null: it is sent from where it lies.
    // It outlives the server.
    MemoryAccess* memory = nullptr;
    // A reader that fetches nothing for so long has given its connection up, or will find that the digest differs. UCX
    // may never tell: a connection that a living reader closes stays open at the owner's end.
    int64_t offer_timeout_ms = 0;
  };

  // `grants` says who may read what, and outlives the server.
  static absl::StatusOr<std::unique_ptr<PieceServer>> Create(std::unique_ptr<UcxWorker> worker, const Options& options,
                                                             ReadGrants& grants);

  // The region, which outlives the server. Requests are refused that name another nonce, or bytes that were not granted
  // to the fetch that they name. What lies behind the region holds no data: anybody may read it.
  void Expose(const Id128& nonce, const uint8_t* base, const RegionLayout& layout);

  UcxWorker& worker() { return *worker_; }
  // Ends what the grants know of offers that were open for too long. NextTimer says when there is one; kNever without.
  void EndOldOffers();
  TimeNs NextTimer() const;

 private:
  // A piece that a reader may fetch. UCX refers to it until it was fetched or declined, or the reader is lost.
  struct OpenOffer {
    PieceServer* server = nullptr;
    std::list<OpenOffer>::iterator self;
    FragmentHeader header;
    // Zero for a probe, and when the grants know of it no more.
    Id128 fetch;
    TimeNs until = 0;
  };

  PieceServer(std::unique_ptr<UcxWorker> worker, const Options& options, ReadGrants& grants)
      : offer_timeout_ns_(options.offer_timeout_ms * kNsPerMs), worker_(std::move(worker)), grants_(grants) {}

  static ucs_status_t OnRequest(void* server, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                                const ucp_am_recv_param_t* param);
  void Serve(const void* header, size_t header_bytes, ucp_ep_h reader);
  // The next three are false when the request's bytes may not be read any more, or the reader is lost.
  bool SendStaged(const PieceRequest& request, ucp_ep_h reader) const;
  // The piece as a whole, from memory that the worker has registered.
  bool Offer(const PieceRequest& request, ucp_ep_h reader);
  static void OnOfferDone(void* request, ucs_status_t status, void* offer);
  void EndOffer(OpenOffer& offer);
  bool SendFragment(const PieceRequest& request, uint64_t offset, ucp_ep_h reader) const;
  // Whether the bytes, which belong to the request, may be sent. Then EndSend of the grants follows, but for a probe.
  bool BeginSend(const PieceRequest& request, const RegionRange& range) const;
  void Refuse(const PieceRequest& request, ucp_ep_h reader) const;

  bool IsProbe(const PieceRequest& request) const {
    return request.fetch.is_zero() && layout_.IsProbe({.offset = request.offset, .bytes = request.bytes});
  }

  const int64_t offer_timeout_ns_;
  // Null where the region is host memory, which is sent from where it lies. It outlives the worker, whose messages are
  // in its buffers.
  std::unique_ptr<StagedPieces> staged_;
  // In the order of their beginnings. They outlive the worker.
  std::list<OpenOffer> offers_;
  std::unique_ptr<UcxWorker> worker_;
  ReadGrants& grants_;
  Id128 nonce_;
  const uint8_t* base_ = nullptr;
  RegionLayout layout_{0};
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_PIECE_SERVER_H_
