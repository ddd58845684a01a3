// Where a transport listens, seen in the kernel's table of sockets.
#include "kvtransfer/transports/ucx/tcp_device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The addresses that this process listens on, as the kernel writes them: hex digits in the order of memory.
std::multiset<std::string> ListeningAddresses() {
  std::set<std::string> own_sockets;
  std::error_code ignored;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    own_sockets.insert(std::filesystem::read_symlink(fd.path(), ignored).string());
  }
  std::multiset<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
      constexpr std::string_view kListen = "0A";
      if (state == kListen && own_sockets.contains("socket:[" + inode + "]")) {
        addresses.insert(local.substr(0, local.find(':')));
      }
    }
  }
  return addresses;
}

std::multiset<std::string> ListeningAddressesWith(const std::string& bind) {
  auto transport = MakeTransport({.kind = TransportKind::kTcp, .bind = bind});
  EXPECT_TRUE(transport.ok()) << transport.status();
  EXPECT_TRUE((*transport)->AllocateRegion(4096).ok());
  EXPECT_TRUE((*transport)->Address().ok());
  return ListeningAddresses();
}

// An IPv4 address of this host that is not loopback; empty when there is none.
std::string NetworkAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof(text));
    if (std::string_view(text).substr(0, 4) != "127.") found = text;
  }
  freeifaddrs(all);
  return found;
}

TEST(TcpDeviceTest, TransportListensOnItsLoopbackAddressAlone) {
  ASSERT_THAT(ListeningAddresses(), IsEmpty());
  for (const char* bind : {"127.0.0.1", "localhost"}) {
    const auto listening = ListeningAddressesWith(bind);
    EXPECT_THAT(listening, Not(IsEmpty()));
    EXPECT_THAT(listening, Each("0100007F")) << bind;
  }
}

TEST(TcpDeviceTest, TransportListensOnItsNetworkAddressAlone) {
  const std::string address = NetworkAddress();
  if (address.empty()) GTEST_SKIP() << "this host has no network";
  in_addr ip{};
  ASSERT_EQ(inet_pton(AF_INET, address.c_str(), &ip), 1);
  char hex[9];
  std::snprintf(hex, sizeof(hex), "%08X", ip.s_addr);
  const auto listening = ListeningAddressesWith(address);
  EXPECT_THAT(listening, Not(IsEmpty()));
  EXPECT_THAT(listening, Each(std::string(hex)));
}

TEST(TcpDeviceTest, WildcardMeansAllInterfaces) {
  EXPECT_EQ(FindTcpDevice("0.0.0.0")->net_devices, "all");
  EXPECT_EQ(FindTcpDevice("[::]")->net_devices, "all");
  EXPECT_EQ(FindTcpDevice("0.0.0.0")->af_prio, "inet");
}

// Listens until its end.
class Listener {
 public:
  explicit Listener(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_listening_ = bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd_, 1) == 0;
  }
  ~Listener() { close(fd_); }
  bool is_listening() const { return is_listening_; }

 private:
  const int fd_;
  bool is_listening_ = false;
};

// As many ports in a row that are free, below those that the system gives to connections.
PortRange FreePorts(int count) {
  for (int first = 10'000 + getpid() % 20'000;; ++first) {
    bool all_free = true;
    for (int port = first; port < first + count; ++port) all_free &= Listener(port).is_listening();
    if (all_free) return {.first = first, .last = first + count - 1};
  }
}

absl::StatusOr<std::unique_ptr<Transport>> MakeTransportAt(const PortRange& ports) {
  return MakeTransport({.kind = TransportKind::kTcp, .tcp_ports = ports});
}

TEST(TcpDeviceTest, ATransportTakesTwoPortsOfItsRange) {
  const PortRange ports = FreePorts(4);
  const auto first = MakeTransportAt(ports);
  const auto second = MakeTransportAt(ports);
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(second.ok()) << second.status();
  for (int port = ports.first; port <= ports.last; ++port) EXPECT_FALSE(Listener(port).is_listening()) << port;
}

TEST(TcpDeviceTest, ATransportSkipsPortsThatAreTaken) {
  const PortRange ports = FreePorts(4);
  const Listener first(ports.first);
  const Listener third(ports.first + 2);
  const auto transport = MakeTransportAt(ports);
  EXPECT_TRUE(transport.ok()) << transport.status();
}

TEST(TcpDeviceTest, ARangeThatIsUsedUpIsAnErrorThatNamesIt) {
  const PortRange ports = FreePorts(3);
  const auto first = MakeTransportAt(ports);
  ASSERT_TRUE(first.ok()) << first.status();
  // One port is left.
  const absl::Status error = MakeTransportAt(ports).status();
  EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr(absl::StrCat("--transfer-ports ", ports.first, "-", ports.last)));
}

TEST(TcpDeviceTest, AddressesThatCannotBeListenedOnAreRefused) {
  EXPECT_EQ(FindTcpDevice("not an address").status().code(), absl::StatusCode::kInvalidArgument);
  // Reserved for documentation: no host has it.
  EXPECT_EQ(FindTcpDevice("203.0.113.7").status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton::kvtransfer
