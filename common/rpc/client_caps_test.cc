#include "common/rpc/client_caps.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "baton/v1/admin.grpc.pb.h"
#include "common/check.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/connection_gate.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

// What a client of HTTP/2 says first: the preface and empty SETTINGS.
constexpr std::string_view kHello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr int kPatienceSeconds = 20;

// Answers once it may.
class HoldingService final : public v1::AdminService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
                                      v1::GetStatusResponse*) override {
    grpc::ServerUnaryReactor* const call = context->DefaultReactor();
    absl::MutexLock lock(&mutex_);
    ++started_;
    if (holding_) {
      held_.push_back(call);
    } else {
      call->Finish(grpc::Status::OK);
    }
    return call;
  }

  void Hold() {
    absl::MutexLock lock(&mutex_);
    holding_ = true;
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    holding_ = false;
    for (grpc::ServerUnaryReactor* const call : held_) call->Finish(grpc::Status::OK);
    held_.clear();
  }
  void WaitForStarted(int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return started_ >= count; };
    mutex_.Await(absl::Condition(&enough));
  }
  int started() {
    absl::MutexLock lock(&mutex_);
    return started_;
  }

 private:
  absl::Mutex mutex_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<grpc::ServerUnaryReactor*> held_ ABSL_GUARDED_BY(mutex_);
};

// A client that knows nothing of HTTP/2.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience = {.tv_sec = kPatienceSeconds};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BATON_CHECK(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  void Send(std::string_view bytes) {
    BATON_CHECK(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  // In the order of the network.
  in_port_t local_port() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    BATON_CHECK(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return address.sin_port;
  }
  // Reads to the end; false when the server leaves the connection open.
  bool WaitForEnd() {
    char bytes[256];
    ssize_t count = 1;
    while (count > 0) count = recv(socket_.get(), bytes, sizeof(bytes), 0);
    return count == 0 || errno == ECONNRESET;
  }

 private:
  Descriptor socket_;
};

// A second descriptor of the server's side of `connection`, which is found by the ports.
Descriptor ServerSideOf(const RawConnection& connection) {
  constexpr int kDescriptors = 1024;
  sockaddr_in found{};
  for (int fd = 0; fd < kDescriptors; ++fd) {
    socklen_t size = sizeof(found);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&found), &size) == 0 && found.sin_port == connection.local_port()) {
      return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    }
  }
  return Descriptor();
}

class ClientCapsTest : public ::testing::Test {
 protected:
  ~ClientCapsTest() override {
    service_.Release();
    gate_.reset();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  void Serve(const ClientCaps& caps, bool start = true) {
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    CapClients(builder, caps);
    builder.RegisterService(&service_);
    auto gate = ConnectionGate::Create({.bind = "127.0.0.1", .max_connections = caps.connections}, builder);
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    if (start) gate_->Start();
  }
  // A connection of its own.
  std::unique_ptr<v1::AdminService::Stub> Connect() {
    return v1::AdminService::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", gate_->port()), grpc::InsecureChannelCredentials(), ClientChannelArguments()));
  }
  static grpc::Status Call(v1::AdminService::Stub& stub, int timeout_ms = kPatienceSeconds * 1000) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    v1::GetStatusResponse response;
    return stub.GetStatus(&context, {}, &response);
  }

  HoldingService service_;
  std::unique_ptr<ConnectionGate> gate_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ClientCapsTest, AConnectionHasAsManyStreamsAsTheBoundAndNotOneMore) {
  Serve({});
  const auto stub = Connect();
  EXPECT_TRUE(Call(*stub).ok());
  service_.Hold();
  struct Held {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
  };
  std::vector<Held> held(kMaxStreamsPerConnection);
  const v1::GetStatusRequest request;
  absl::BlockingCounter answered(kMaxStreamsPerConnection);
  for (Held& call : held) {
    stub->async()->GetStatus(&call.context, &request, &call.response, [&](const grpc::Status& status) {
      EXPECT_TRUE(status.ok()) << status.error_message();
      answered.DecrementCount();
    });
  }
  service_.WaitForStarted(1 + kMaxStreamsPerConnection);
  EXPECT_EQ(Call(*stub, 50).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(service_.started(), 1 + kMaxStreamsPerConnection) << "one stream more waits at the client";
  service_.Release();
  EXPECT_TRUE(Call(*stub).ok());
  answered.Wait();
}

TEST_F(ClientCapsTest, AConnectionThatSendsNothingIsClosed) {
  Serve({.handshake_ms = 50});
  EXPECT_TRUE(RawConnection(gate_->port()).WaitForEnd());
}

TEST_F(ClientCapsTest, AConnectionWithoutACallIsClosedAfterItsTime) {
  Serve({.idle_ms = 50});
  RawConnection idle(gate_->port());
  idle.Send(kHello);
  EXPECT_TRUE(idle.WaitForEnd());
}

TEST_F(ClientCapsTest, ThereAreAsManyConnectionsAsTheBoundAndNotOneMore) {
  Serve({.connections = 2});
  const auto first = Connect();
  auto second = Connect();
  EXPECT_TRUE(Call(*first).ok());
  EXPECT_TRUE(Call(*second).ok());
  EXPECT_EQ(Call(*Connect()).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Call(*first).ok()) << "those that are open are not touched";
  // A connection that ends makes room for another, once the server has seen its end.
  second.reset();
  while (!Call(*Connect()).ok()) {
  }
  EXPECT_TRUE(Call(*first).ok());
}

TEST_F(ClientCapsTest, AConnectionThatWasClosedForItsSilenceMakesRoom) {
  Serve({.connections = 1, .handshake_ms = 50});
  RawConnection silent(gate_->port());
  EXPECT_TRUE(silent.WaitForEnd());
  while (!Call(*Connect()).ok()) {
  }
}

// gRPC closes its descriptor of a connection some time after the connection has ended. Here the test holds one, so
// that "some time" lasts until the end.
TEST_F(ClientCapsTest, AConnectionThatHasEndedButIsNotYetClosedCostsNobodyItsDescriptor) {
  Serve({.idle_ms = 50});
  RawConnection idle(gate_->port());
  idle.Send(kHello);
  while (gate_->open_count() == 0) {
  }
  const Descriptor held = ServerSideOf(idle);
  ASSERT_TRUE(held.is_open());
  EXPECT_TRUE(idle.WaitForEnd());
  while (gate_->open_count() > 0) {
  }
  // The gate's number is free, and one of these takes it. Each counts from a value of its own, by which it is known:
  // who takes the number of one that was closed has another.
  constexpr uint64_t kFirstValue = 1'000'000;
  std::vector<Descriptor> others;
  for (int i = 0; i < 16; ++i) others.emplace_back(eventfd(kFirstValue + i, EFD_CLOEXEC | EFD_NONBLOCK));
  // The gate has heard of everything again once it has accepted these.
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(Call(*Connect()).ok());
  }
  for (size_t i = 0; i < others.size(); ++i) {
    uint64_t value = 0;
    EXPECT_EQ(read(others[i].get(), &value, sizeof(value)), ssize_t{sizeof(value)}) << "descriptor " << others[i].get();
    EXPECT_EQ(value, kFirstValue + i);
  }
}

TEST_F(ClientCapsTest, AnAddressThatIsTakenOrNotOursIsAnError) {
  Serve({});
  grpc::ServerBuilder builder;
  EXPECT_EQ(ConnectionGate::Create({.bind = "127.0.0.1", .port = gate_->port(), .max_connections = 1}, builder)
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ConnectionGate::Create({.bind = "192.0.2.1", .max_connections = 1}, builder).status().code(),
            absl::StatusCode::kUnavailable);
}

// gRPC would tell CANCELLED to those that reach a server which has begun to shut down.
TEST_F(ClientCapsTest, CallsThatComeWhileTheServerEndsAreUnavailable) {
  constexpr int kRounds = 20, kClients = 4;
  for (int round = 0; round < kRounds; ++round) {
    Serve(ClientCaps());
    std::vector<std::thread> clients;
    std::array<grpc::Status, kClients> ends;
    std::atomic<int> answered = 0;
    for (grpc::Status& end : ends) {
      clients.emplace_back([stub = Connect(), &end, &answered] {
        while (end.ok()) {
          end = Call(*stub);
          answered += end.ok() ? 1 : 0;
        }
      });
    }
    while (answered < 10 * kClients) std::this_thread::yield();
    gate_.reset();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    for (std::thread& client : clients) client.join();
    for (const grpc::Status& end : ends)
      EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE) << end.error_message();
  }
}

// The gate takes connections from the system's queue only once it runs, so that a client waits for the handshake.
TEST_F(ClientCapsTest, AConnectionMayTakeTwiceAsLongAsTheFirstPauseBetweenAttempts) {
  Serve({}, /*start=*/false);
  const auto stub = Connect();
  std::thread late([this] {
    absl::SleepFor(absl::Milliseconds(200));
    gate_->Start();
  });
  const grpc::Status status = Call(*stub);
  EXPECT_TRUE(status.ok()) << status.error_message();
  late.join();
}

TEST(ClientCaps, AreThoseOfTheRouterUnlessATestAsksForLess) {
  const ClientCaps caps;
  EXPECT_EQ(caps.connections, kMaxClientConnections);
  EXPECT_EQ(caps.streams_per_connection, kMaxStreamsPerConnection);
  EXPECT_EQ(caps.idle_ms, kMaxIdleConnectionMs);
  EXPECT_EQ(caps.handshake_ms, kMaxHandshakeMs);
  EXPECT_EQ(caps.grpc_memory_bytes, kMaxGrpcMemoryBytes);
  EXPECT_EQ(caps.grpc_threads, kMaxGrpcThreads);
}

}  // namespace
}  // namespace baton::rpc
