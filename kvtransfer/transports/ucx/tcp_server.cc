#include "kvtransfer/transports/ucx/tcp_server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "common/status.h"
#include "kvtransfer/transports/ucx/tcp_wire.h"
#include "kvtransfer/transports/ucx/ucx_library.h"

namespace baton::kvtransfer {
absl::StatusOr<std::unique_ptr<TcpServer>> TcpServer::Create(const std::string& net_devices) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, MakeTcpWorker(net_devices));
  auto server = absl::WrapUnique(new TcpServer(std::move(worker)));
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = kPieceRequestMessage;
  params.cb = &TcpServer::OnRequest;
  params.arg = server.get();
  const ucs_status_t status = Ucx().ucp_worker_set_am_recv_handler(server->worker_->handle(), &params);
  if (status != UCS_OK) return UcxError("UCX's handler of read requests", status);
  return server;
}

void TcpServer::Expose(const Id128& nonce, absl::Span<const uint8_t> memory) {
  nonce_ = nonce;
  memory_ = memory;
}

ucs_status_t TcpServer::OnRequest(void* server, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                                  const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
    static_cast<const TcpServer*>(server)->Serve(header, header_bytes, param->reply_ep);
  }
  return UCS_OK;
}

// `reader` is an endpoint that UCX owns and closes with its peer: it is used within this call and never kept.
void TcpServer::Serve(const void* header, size_t header_bytes, ucp_ep_h reader) const {
  if (header_bytes != sizeof(PieceRequest)) return;
  PieceRequest request;
  std::memcpy(&request, header, sizeof(request));
  const bool inside = request.bytes <= kTcpPieceBytes && request.offset <= memory_.size() &&
                      request.bytes <= memory_.size() - request.offset;
  if (request.nonce != nonce_ || !inside) {
    const FragmentHeader refusal = {.piece = request.piece, .offset = 0, .kind = FragmentKind::kRefused};
    // When the answer cannot be sent, the reader is lost and needs none.
    SendTcpMessage(reader, refusal, {}).IgnoreError();
    return;
  }
  for (uint64_t offset = 0; offset < request.bytes; offset += kTcpFragmentBytes) {
    const uint64_t bytes = std::min<uint64_t>(kTcpFragmentBytes, request.bytes - offset);
    const FragmentHeader fragment = {.piece = request.piece, .offset = offset, .kind = FragmentKind::kData};
    const auto data = memory_.subspan(request.offset + offset, bytes);
    if (!SendTcpMessage(reader, fragment, data).ok()) return;
  }
}

}  // namespace baton::kvtransfer
