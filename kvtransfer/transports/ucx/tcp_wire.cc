#include "kvtransfer/transports/ucx/tcp_wire.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
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
  if (UCS_PTR_IS_ERR(request)) {
    return absl::UnavailableError(UcxError("sending by TCP", UCS_PTR_STATUS(request)).message());
  }
  if (request != nullptr) static_cast<void>(pending.release());  // OnSent takes it.
  return absl::OkStatus();
}

// Whether UCX could listen there: it does not reuse a port whose last connection ended less than a minute ago.
bool IsFree(int port, bool is_ipv4) {
  sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(port))};
  const int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = is_ipv4 ? bind(fd, reinterpret_cast<const sockaddr*>(&ipv4), sizeof(ipv4)) == 0
                             : bind(fd, reinterpret_cast<const sockaddr*>(&ipv6), sizeof(ipv6)) == 0;
  close(fd);
  return bound;
}

// `ports` is a value of UCX's TCP_PORT_RANGE, or empty.
absl::StatusOr<std::unique_ptr<UcxWorker>> MakeTcpWorkerAt(const TcpDevice& device, const std::string& ports) {
  const std::string segment = absl::StrCat(kTcpSegmentBytes);
  UcxSettings settings = {{"TLS", "tcp"},
                          {"NET_DEVICES", device.net_devices},
                          {"TCP_AF_PRIO", device.af_prio},
                          {"TCP_TX_SEG_SIZE", segment},
                          {"TCP_RX_SEG_SIZE", segment},
                          {"RCACHE_ENABLE", "n"},
                          {"WARN_INVALID_CONFIG", "n"}};
  if (!ports.empty()) settings.push_back({"TCP_PORT_RANGE", ports});
  return UcxWorker::Create(UCP_FEATURE_AM, settings);
}

}  // namespace

absl::Status SendTcpMessage(ucp_ep_h endpoint, const PieceRequest& request) {
  const Message message = {
      .id = kPieceRequestMessage, .header = &request, .header_bytes = sizeof(request), .flags = UCP_AM_SEND_FLAG_REPLY};
  return Send(endpoint, message, {}, nullptr);
}

absl::Status SendTcpMessage(ucp_ep_h endpoint, const FragmentHeader& fragment, absl::Span<const uint8_t> data,
                            std::function<void()> sent) {
  const Message message = {.id = kFragmentMessage, .header = &fragment, .header_bytes = sizeof(fragment), .flags = 0};
  return Send(endpoint, message, data, std::move(sent));
}

// UCX gets one port at a time: in a range of which no port is free it would search for ever, without a word.
absl::StatusOr<std::unique_ptr<UcxWorker>> MakeTcpWorker(const TcpDevice& device) {
  if (!device.ports.has_value()) return MakeTcpWorkerAt(device, "");
  const bool is_ipv4 = device.af_prio == "inet";
  for (int port = device.ports->first; port <= device.ports->last; ++port) {
    if (!IsFree(port, is_ipv4)) continue;
    auto worker = MakeTcpWorkerAt(device, absl::StrCat(port, "-", port));
    // A process that has taken the port since leaves us the next one.
    if (worker.ok() || IsFree(port, is_ipv4)) return worker;
  }
  return absl::UnavailableError(absl::StrCat(
      "--transfer-ports ", device.ports->first, "-", device.ports->last,
      " has no free port left: each worker on this host takes two, and a port is free again a minute after its worker ",
      "has ended"));
}

}  // namespace baton::kvtransfer
