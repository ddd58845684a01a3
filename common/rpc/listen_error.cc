#include "common/rpc/listen_error.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton::rpc {
namespace {

// 0 when the address can be bound.
int BindError(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens = bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = listens ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

absl::Status ExplainListenError(const std::string& bind, int port, const std::string& port_flag,
                                const std::string& bind_flag) {
  absl::string_view host = bind;
  // An IPv6 address.
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string wrong_host = absl::StrCat("cannot listen on ", bind_flag, " ", bind, ": ");
  const std::string expected = "; expected an address of this machine without a port, such as 127.0.0.1 or 0.0.0.0";
  if (const int error = getaddrinfo(std::string(host).c_str(), std::to_string(port).c_str(), &hints, &found)) {
    return absl::InvalidArgumentError(absl::StrCat(wrong_host, gai_strerror(error), expected));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  const int error = BindError(*address);
  if (error == EADDRNOTAVAIL) {
    return absl::InvalidArgumentError(absl::StrCat(wrong_host, std::strerror(error), expected));
  }
  const std::string where = absl::StrCat("cannot listen on ", bind, ":", port, ": ");
  if (error == EADDRINUSE || error == 0) {
    return absl::UnavailableError(
        absl::StrCat(where, "the port is in use; choose another ", port_flag, ", or 0 for any free one"));
  }
  return absl::UnavailableError(absl::StrCat(where, std::strerror(error), "; choose another ", port_flag));
}

}  // namespace baton::rpc
