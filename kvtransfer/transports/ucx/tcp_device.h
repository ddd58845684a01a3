// Which of UCX's network devices listens on an address. UCX takes the names of network interfaces, and listens on the
// first address of each.
#ifndef BATON_KVTRANSFER_TRANSPORTS_UCX_TCP_DEVICE_H_
#define BATON_KVTRANSFER_TRANSPORTS_UCX_TCP_DEVICE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// The strings are values of UCX's settings of the same names.
struct TcpDevice {
  std::string net_devices;
  std::string af_prio;
  // As in TransportOptions; not found but given.
  std::optional<PortRange> ports = std::nullopt;
};

// The interface that carries `bind`, which is an address or a host name. A loopback address means the loopback
// interface, a wildcard all interfaces. INVALID_ARGUMENT for a name that does not resolve, UNAVAILABLE for an address
// that no interface has, or that is not the first one of its interface, where UCX would listen on another.
absl::StatusOr<TcpDevice> FindTcpDevice(const std::string& bind);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TRANSPORTS_UCX_TCP_DEVICE_H_
