#include "kvtransfer/transports/ucx/piece_wire.h"

#include <cstring>
#include <utility>

#include "kvtransfer/transports/ucx/ucx_library.h"

namespace baton::kvtransfer {
namespace {

constexpr size_t kMaxHeaderBytes = sizeof(PieceRequest);
static_assert(sizeof(FragmentHeader) <= kMaxHeaderBytes);

// Lives until UCX has sent it. UCP_AM_SEND_FLAG_COPY_HEADER would spare us that, but with it UCX 1.22 sends headers
// that belong to later messages.
struct PendingHeader {
  explicit PendingHeader(std::function<void()> on_sent) : sent(std::move(on_sent)) {}
  ~PendingHeader() {
    if (sent) sent();
  }

  uint8_t bytes[kMaxHeaderBytes];
  const std::function<void()> sent;
};

// A send that fails means a lost peer, which its endpoint's error handler reports.
void OnSent(void* request, ucs_status_t status, void* header) {
  delete static_cast<PendingHeader*>(header);
  Ucx().ucp_request_free(request);
}

struct Message {
  unsigned id = 0;
  const void* header = nullptr;
  size_t header_bytes = 0;
  // Flags of UCX, besides UCP_AM_SEND_FLAG_EAGER.
  uint32_t flags = 0;
};

absl::Status SendError(void* request) {
  return absl::UnavailableError(UcxError("sending to the peer", UCS_PTR_STATUS(request)).message());
}

absl::Status Send(ucp_ep_h endpoint, const Message& message, absl::Span<const uint8_t> data,
                  std::function<void()> sent) {
  auto pending = std::make_unique<PendingHeader>(std::move(sent));
  std::memcpy(pending->bytes, message.header, message.header_bytes);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &OnSent;
  params.flags = UCP_AM_SEND_FLAG_EAGER | message.flags;
  params.user_data = pending.get();
  void* const request = Ucx().ucp_am_send_nbx(endpoint, message.id, pending->bytes, message.header_bytes, data.data(),
                                              data.size(), &params);
  if (UCS_PTR_IS_ERR(request)) return SendError(request);
  if (request != nullptr) static_cast<void>(pending.release());  // OnSent takes it.
  return absl::OkStatus();
}

}  // namespace

absl::Status SendPieceMessage(ucp_ep_h endpoint, const PieceRequest& request) {
  const Message message = {
      .id = kPieceRequestMessage, .header = &request, .header_bytes = sizeof(request), .flags = UCP_AM_SEND_FLAG_REPLY};
  return Send(endpoint, message, {}, nullptr);
}

absl::Status SendPieceMessage(ucp_ep_h endpoint, const FragmentHeader& fragment, absl::Span<const uint8_t> data,
                              std::function<void()> sent) {
  const Message message = {.id = kFragmentMessage, .header = &fragment, .header_bytes = sizeof(fragment), .flags = 0};
  return Send(endpoint, message, data, std::move(sent));
}

absl::StatusOr<bool> OfferPiece(ucp_ep_h endpoint, const UcxWorker& worker, const FragmentHeader& header,
                                absl::Span<const uint8_t> data, ucp_send_nbx_callback_t done, void* argument) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = done;
  params.flags = UCP_AM_SEND_FLAG_RNDV;
  params.user_data = argument;
  worker.NameMemory(params);
  void* const request =
      Ucx().ucp_am_send_nbx(endpoint, kFragmentMessage, &header, sizeof(header), data.data(), data.size(), &params);
  if (UCS_PTR_IS_ERR(request)) return SendError(request);
  return request != nullptr;
}

}  // namespace baton::kvtransfer
