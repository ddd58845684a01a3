#include "kvtransfer/transports/ucx/network_worker.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace baton::kvtransfer {
namespace {

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

absl::StatusOr<std::unique_ptr<UcxWorker>> MakeRdmaWorkerOver(const std::string& transports) {
  return UcxWorker::Create(UCP_FEATURE_AM, {{"TLS", transports}, {"RCACHE_ENABLE", "n"}, {"WARN_INVALID_CONFIG", "n"}});
}

}  // namespace

absl::StatusOr<std::string> FindRdmaNetwork() {
  const char* const of_test = std::getenv("BATON_TEST_RDMA_NETWORK");
  std::string network = of_test == nullptr ? "rc,dc,ud" : of_test;
  // Beside a device's memory UCX would start without any network.
  if (const absl::Status missing = MakeRdmaWorkerOver(network).status(); !missing.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--transport rdma: UCX finds no InfiniBand or RoCE adapter here, or was built without its support ",
        "(libuct_ib): choose auto, shm, tcp, grpc or nccl: ", missing.message()));
  }
  return network;
}

absl::StatusOr<std::unique_ptr<UcxWorker>> MakeRdmaWorker(const std::string& network) {
  return MakeRdmaWorkerOver(absl::StrCat(network, ",cuda_copy,gdr_copy"));
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
