#include "kvtransfer/transports/ucx/tcp_device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace {

// The address without its port, as the bytes that two equal ones share. Empty for other families.
std::string_view AddressBytes(const sockaddr* address) {
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    const auto* const ip = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const char*>(ip), sizeof(*ip)};
  }
  if (address->sa_family == AF_INET6) {
    const auto* const ip = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return {reinterpret_cast<const char*>(ip), sizeof(*ip)};
  }
  return {};
}

bool IsLoopback(std::string_view bytes) {
  constexpr uint8_t kLoopbackNet = 127;
  if (bytes.size() == sizeof(in_addr)) return static_cast<uint8_t>(bytes[0]) == kLoopbackNet;
  return bytes == std::string_view(reinterpret_cast<const char*>(&in6addr_loopback), sizeof(in6addr_loopback));
}

bool IsWildcard(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

absl::StatusOr<std::string> Resolve(const std::string& bind) {
  // gRPC's notation of an IPv6 address.
  const bool bracketed = bind.size() > 2 && bind.front() == '[' && bind.back() == ']';
  const std::string host = bracketed ? bind.substr(1, bind.size() - 2) : bind;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--bind ", bind, " is no address: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  return std::string(AddressBytes(found->ai_addr));
}

// The interface that has the address and listens on it; empty when there is none.
std::string InterfaceOf(const ifaddrs* all, std::string_view address) {
  absl::flat_hash_set<std::string> seen;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const std::string_view bytes = AddressBytes(one->ifa_addr);
    if (bytes.size() != address.size()) continue;
    // Labels such as "eth0:1" name further addresses of eth0.
    std::string name(one->ifa_name, std::strcspn(one->ifa_name, ":"));
    const bool is_first = seen.insert(name).second;
    const bool is_loopback = IsLoopback(address) && (one->ifa_flags & IFF_LOOPBACK) != 0;
    if (is_loopback || (is_first && bytes == address)) return name;
  }
  return "";
}

}  // namespace

absl::StatusOr<TcpDevice> FindTcpDevice(const std::string& bind) {
  BATON_ASSIGN_OR_RETURN(const std::string address, Resolve(bind));
  const bool is_ipv4 = address.size() == sizeof(in_addr);
  if (IsWildcard(address)) return TcpDevice{.net_devices = "all", .af_prio = is_ipv4 ? "inet" : "inet,inet6"};
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return absl::UnavailableError("the system does not list its network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(all, &freeifaddrs);
  const std::string name = InterfaceOf(all, address);
  if (name.empty()) {
    return absl::UnavailableError(absl::StrCat("no network interface has ", bind, " as its first address, so UCX ",
                                               "cannot listen there: choose another --bind, or --transport shm"));
  }
  return TcpDevice{.net_devices = name, .af_prio = is_ipv4 ? "inet" : "inet6"};
}

}  // namespace baton::kvtransfer
