#include "kvtransfer/transports/ucx/piece_server.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "common/status.h"
#include "kvtransfer/transports/ucx/piece_wire.h"
#include "kvtransfer/transports/ucx/ucx_library.h"

namespace baton::kvtransfer {

absl::StatusOr<std::unique_ptr<PieceServer>> PieceServer::Create(std::unique_ptr<UcxWorker> worker,
                                                                 const Options& options, ReadGrants& grants) {
  auto server = absl::WrapUnique(new PieceServer(std::move(worker), options, grants));
  if (options.memory != nullptr) {
    BATON_ASSIGN_OR_RETURN(server->staged_, StagedPieces::Create(*options.memory));
  }
  BATON_RETURN_IF_ERROR(server->worker_->HandleMessages(kPieceRequestMessage, &PieceServer::OnRequest, server.get()));
  return server;
}

void PieceServer::Expose(const Id128& nonce, const uint8_t* base, const RegionLayout& layout) {
  nonce_ = nonce;
  base_ = base;
  layout_ = layout;
}

ucs_status_t PieceServer::OnRequest(void* server, const void* header, size_t header_bytes, void* data,
                                    size_t data_bytes, const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
    static_cast<PieceServer*>(server)->Serve(header, header_bytes, param->reply_ep);
  }
  return UCS_OK;
}

// `reader` is an endpoint that UCX owns and closes with its peer: it is used within this call and never kept.
void PieceServer::Serve(const void* header, size_t header_bytes, ucp_ep_h reader) {
  if (header_bytes != sizeof(PieceRequest)) return;
  PieceRequest request;
  std::memcpy(&request, header, sizeof(request));
  if (request.nonce != nonce_ || request.bytes > kMaxPieceBytes) return Refuse(request, reader);
  if (staged_ != nullptr || worker_->registers_memory()) {
    const bool sent = staged_ != nullptr ? SendStaged(request, reader) : Offer(request, reader);
    if (!sent) Refuse(request, reader);
    return;
  }
  for (uint64_t offset = 0; offset < request.bytes; offset += kFragmentBytes) {
    if (!SendFragment(request, offset, reader)) return Refuse(request, reader);
  }
}

bool PieceServer::SendStaged(const PieceRequest& request, ucp_ep_h reader) const {
  const RegionRange range = {.offset = request.offset, .bytes = request.bytes};
  if (!BeginSend(request, range)) return false;
  const absl::Status status = staged_->Send(
      {base_ + range.offset, range.bytes},
      [&](uint64_t offset, absl::Span<const uint8_t> bytes, std::function<void()> sent) {
        const FragmentHeader fragment = {.piece = request.piece, .offset = offset, .kind = FragmentKind::kData};
        return SendPieceMessage(reader, fragment, bytes, std::move(sent));
      });
  if (!IsProbe(request)) grants_.EndSend(request.fetch);
  return status.ok();
}

bool PieceServer::BeginSend(const PieceRequest& request, const RegionRange& range) const {
  if (IsProbe(request) || grants_.BeginSend(request.fetch, range)) return true;
  grants_.CountRefusal();
  return false;
}

bool PieceServer::SendFragment(const PieceRequest& request, uint64_t offset, ucp_ep_h reader) const {
  const RegionRange range = {.offset = request.offset + offset,
                             .bytes = std::min<uint64_t>(kFragmentBytes, request.bytes - offset)};
  if (!BeginSend(request, range)) return false;
  std::function<void()> sent;
  if (!IsProbe(request)) sent = [&grants = grants_, fetch = request.fetch] { grants.EndSend(fetch); };
  const FragmentHeader fragment = {.piece = request.piece, .offset = offset, .kind = FragmentKind::kData};
  return SendPieceMessage(reader, fragment, {base_ + range.offset, range.bytes}, std::move(sent)).ok();
}

bool PieceServer::Offer(const PieceRequest& request, ucp_ep_h reader) {
  const RegionRange range = {.offset = request.offset, .bytes = request.bytes};
  if (!BeginSend(request, range)) return false;
  OpenOffer& offer =
      offers_.emplace_back(OpenOffer{.server = this,
                                     .header = {.piece = request.piece, .offset = 0, .kind = FragmentKind::kData},
                                     .fetch = request.fetch,
                                     .until = MonotonicClock().Now() + offer_timeout_ns_});
  offer.self = std::prev(offers_.end());
  const absl::StatusOr<bool> is_open = OfferPiece(reader, *worker_, offer.header, {base_ + range.offset, range.bytes},
                                                  &PieceServer::OnOfferDone, &offer);
  if (!is_open.value_or(false)) EndOffer(offer);
  return is_open.ok();
}

void PieceServer::OnOfferDone(void* request, ucs_status_t status, void* arg) {
  Ucx().ucp_request_free(request);
  auto& offer = *static_cast<OpenOffer*>(arg);
  offer.server->EndOffer(offer);
}

void PieceServer::EndOffer(OpenOffer& offer) {
  if (!offer.fetch.is_zero()) grants_.EndSend(offer.fetch);
  offers_.erase(offer.self);
}

void PieceServer::EndOldOffers() {
  if (offers_.empty()) return;
  const TimeNs now = MonotonicClock().Now();
  for (OpenOffer& offer : offers_) {
    if (offer.until > now) break;
    if (!offer.fetch.is_zero()) grants_.EndSend(std::exchange(offer.fetch, {}));
  }
}

TimeNs PieceServer::NextTimer() const {
  const auto next =
      std::find_if(offers_.begin(), offers_.end(), [](const auto& offer) { return !offer.fetch.is_zero(); });
  return next == offers_.end() ? kNever : next->until;
}

void PieceServer::Refuse(const PieceRequest& request, ucp_ep_h reader) const {
  const FragmentHeader refusal = {.piece = request.piece, .offset = 0, .kind = FragmentKind::kRefused};
  // When the answer cannot be sent, the reader is lost and needs none.
  SendPieceMessage(reader, refusal, {}, nullptr).IgnoreError();
}

}  // namespace baton::kvtransfer
