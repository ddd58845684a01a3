#include "router/cluster_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/limits.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/testing/worker_hello.h"

namespace baton::router {
namespace {

namespace pb = internal::v1;
using ::testing::HasSubstr;

pb::WorkerMessage HelloOf(uint64_t n) {
  pb::WorkerMessage message;
  pb::Hello& hello = *message.mutable_hello();
  hello = MakeHello(n, pb::WORKER_ROLE_MIXED);
  hello.set_total_blocks(10'000'000);
  hello.set_max_sequences(64);
  hello.set_chunk_tokens(64 << 20);
  hello.set_context_length(64 << 20);
  return message;
}

// One worker, by gRPC's blocking calls.
class TestWorker {
 public:
  explicit TestWorker(const std::string& address) : stub_(pb::ClusterService::NewStub(Channel(address))) {
    // A router that does not answer fails the test instead of holding it up.
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    call_ = stub_->Join(&context_);
  }

  // The channels of a process share connections, of which each has few streams.
  static std::shared_ptr<grpc::Channel> Channel(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  bool Write(const pb::WorkerMessage& message) { return call_->Write(message); }
  std::optional<pb::RouterMessage> Read() {
    pb::RouterMessage message;
    if (!call_->Read(&message)) return std::nullopt;
    return message;
  }
  // Joins, and keeps the membership.
  void Join(uint64_t n) { ASSERT_TRUE(TryJoin(n)); }
  // False when the stream ended before the hello was taken.
  bool TryJoin(uint64_t n) {
    Write(HelloOf(n));
    const auto answer = Read();
    if (!answer.has_value() || !answer->has_accepted()) return false;
    membership_ = answer->accepted().membership();
    return true;
  }
  pb::WorkerMessage Message() const {
    pb::WorkerMessage message;
    message.set_membership(membership_);
    return message;
  }
  grpc::Status Finish() {
    while (Read().has_value()) {
    }
    return call_->Finish();
  }
  void Leave() { call_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<pb::ClusterService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::WorkerMessage, pb::RouterMessage>> call_;
  std::string membership_;
};

class Listener final : public JobListener {
 public:
  void OnToken(const OutputToken& token) override { tokens.push_back(token.token); }
  void OnEnd(const JobResult& result) override {
    status = result.status;
    ended.Notify();
  }
  std::vector<int32_t> tokens;
  absl::Status status;
  absl::Notification ended;
};

class ClusterServerTest : public ::testing::Test {
 protected:
  void Listen(int64_t hello_timeout_ms = 60'000) {
    server_.emplace(
        ClusterServerOptions{.bind = "127.0.0.1", .hello_timeout_ms = hello_timeout_ms, .members = {.model = "tiny"}},
        MonotonicClock(), SystemRandom(), loop_, events_);
    const absl::Status listening = server_->Listen();
    ASSERT_TRUE(listening.ok()) << listening;
  }
  std::shared_ptr<Listener> Submit(uint64_t n, size_t prompt_tokens = 3) {
    auto job = std::make_shared<JobSpec>();
    job->id = {.high = 2, .low = n};
    job->prompt.assign(prompt_tokens, 100'000);
    job->sampling.max_tokens = 4;
    auto listener = std::make_shared<Listener>();
    loop_.PostWhenRoom([this, job, listener](Dispatcher&) { EXPECT_TRUE(loop_.Submit(job, listener).ok()); });
    return listener;
  }
  size_t WorkerCount() {
    size_t count = 0;
    absl::Notification counted;
    loop_.PostWhenRoom([&](Dispatcher& dispatcher) {
      count = dispatcher.registry().workers().size();
      counted.Notify();
    });
    counted.WaitForNotification();
    return count;
  }

  rpc::EventQueue events_;
  // However long a busy machine takes.
  RouterLoop loop_{DispatcherOptions{.max_losses = 0, .worker_silence_ms = 60'000}, MonotonicClock(), SystemRandom(),
                   events_};
  std::optional<ClusterServer> server_;
};

TEST_F(ClusterServerTest, AJobRunsOverTheStreamOfAWorkerThatJoined) {
  Listen();
  TestWorker worker(server_->address());
  worker.Join(1);
  const auto listener = Submit(1);
  const auto message = worker.Read();
  ASSERT_TRUE(message.has_value());
  ASSERT_EQ(message->starts_size(), 1);
  const uint64_t call = message->starts(0).call();
  pb::WorkerMessage reports = worker.Message();
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &reports);
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kToken, .token = {.index = 0, .token = 5}}, &reports);
  ASSERT_TRUE(worker.Write(reports));
  reports = worker.Message();
  rpc::AddReport(call,
                 {.kind = WorkerUpdate::Kind::kToken, .token = {.index = 1, .token = 6, .finish = FinishReason::kStop}},
                 &reports);
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kFinished, .token = {}}, &reports);
  rpc::AddEnd(call, absl::OkStatus(), &reports);
  ASSERT_TRUE(worker.Write(reports));
  listener->ended.WaitForNotification();
  EXPECT_TRUE(listener->status.ok()) << listener->status;
  EXPECT_THAT(listener->tokens, ::testing::ElementsAre(5, 6));
}

TEST_F(ClusterServerTest, TheEndOfAStreamIsTheLossOfItsWorkersJobs) {
  Listen();
  TestWorker worker(server_->address());
  worker.Join(1);
  const auto listener = Submit(1);
  ASSERT_TRUE(worker.Read().has_value());
  worker.Cancel();
  listener->ended.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(listener->status));
  EXPECT_EQ(WorkerCount(), 0u);
}

TEST_F(ClusterServerTest, AWorkerThatLeavesHearsThatAllIsWell) {
  Listen();
  TestWorker worker(server_->address());
  worker.Join(1);
  worker.Leave();
  EXPECT_TRUE(worker.Finish().ok());
  EXPECT_EQ(WorkerCount(), 0u);
}

TEST_F(ClusterServerTest, AStreamWithoutAHelloIsEndedInTimeAndOneWithAHelloStays) {
  EXPECT_EQ(ClusterServerOptions().hello_timeout_ms, kHelloTimeoutMs);
  Listen(/*hello_timeout_ms=*/50);
  // On a busy machine a hello may come too late.
  std::optional<TestWorker> member;
  do {
    member.emplace(server_->address());
  } while (!member->TryJoin(1));
  TestWorker silent(server_->address());
  const grpc::Status status = silent.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_TRUE(member->Write(member->Message()));
  EXPECT_EQ(WorkerCount(), 1u);
}

TEST_F(ClusterServerTest, NoMoreThanTheBoundOfStreamsWaitForTheirHello) {
  Listen();
  constexpr size_t kBeyond = 4;
  std::vector<std::unique_ptr<TestWorker>> workers;
  absl::Mutex mutex;
  std::vector<TestWorker*> refused;
  size_t joined = 0;
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kMaxJoiningStreams + kBeyond; ++i) {
    workers.push_back(std::make_unique<TestWorker>(server_->address()));
    readers.emplace_back([&, worker = workers.back().get()] {
      const bool is_joined = worker->Read().has_value();
      absl::MutexLock lock(&mutex);
      if (is_joined) {
        ++joined;
      } else {
        refused.push_back(worker);
      }
    });
  }
  const auto await = [&mutex](const auto& condition) {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&condition));
  };
  const auto enough_are_refused = [&] { return refused.size() >= kBeyond; };
  await(enough_are_refused);
  // Two hellos make room for two.
  uint64_t hellos = 0;
  for (const auto& worker : workers) {
    if (std::find(refused.begin(), refused.end(), worker.get()) != refused.end()) {
      EXPECT_EQ(worker->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    } else if (hellos < 2) {
      worker->Write(HelloOf(++hellos));
    }
  }
  const auto both_joined = [&] { return joined == 2; };
  await(both_joined);
  TestWorker next(server_->address());
  next.Join(3);
  for (const auto& worker : workers) worker->Cancel();
  for (std::thread& reader : readers) reader.join();
}

TEST_F(ClusterServerTest, AMessageOfTheGreatestSizeIsReadAndOneByteMoreEndsTheStream) {
  Listen();
  for (const bool beyond : {false, true}) {
    TestWorker worker(server_->address());
    worker.Join(beyond ? 2 : 1);
    // Field 15 is unknown, so its bytes are skipped.
    pb::WorkerMessage message = worker.Message();
    const size_t room = kMaxWorkerMessageBytes - message.ByteSizeLong() - /*tag and length*/ 5;
    message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(
        15, std::string(room + (beyond ? 1 : 0), 'x'));
    ASSERT_EQ(message.ByteSizeLong(), kMaxWorkerMessageBytes + (beyond ? 1 : 0));
    worker.Write(message);
    worker.Leave();
    const grpc::Status status = worker.Finish();
    EXPECT_EQ(status.ok(), !beyond) << status.error_message();
  }
}

TEST_F(ClusterServerTest, BytesThatAreNoMessageEndTheirStreamAlone) {
  Listen();
  TestWorker member(server_->address());
  member.Join(1);
  grpc::GenericStub stub(TestWorker::Channel(server_->address()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, "/baton.internal.v1.ClusterService/Join", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(await());
  const grpc::Slice garbage("\xff\xff\xff\xff garbage");
  call->Write(grpc::ByteBuffer(&garbage, 1), nullptr);
  await();
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  EXPECT_FALSE(status.error_code() == grpc::StatusCode::OK && WorkerCount() != 1);
  EXPECT_EQ(WorkerCount(), 1u);
  EXPECT_TRUE(member.Write(member.Message()));
}

TEST_F(ClusterServerTest, AWorkerThatDoesNotReadIsCutWhenTooMuchWaitsForIt) {
  Listen();
  TestWorker worker(server_->address());
  worker.Join(1);
  // Each start has 3 bytes a token. gRPC and the kernel take up to half of it all before anything waits.
  constexpr size_t kPromptTokens = size_t{1} << 20;
  constexpr size_t kStarts = 2 * kMaxUnwrittenRouterBytes / (3 * kPromptTokens);
  std::vector<std::shared_ptr<Listener>> listeners;
  for (uint64_t n = 0; n < kStarts; ++n) {
    listeners.push_back(Submit(n, kPromptTokens));
  }
  for (const auto& listener : listeners) {
    if (listener->ended.WaitForNotificationWithTimeout(absl::Seconds(20))) break;
  }
  EXPECT_EQ(worker.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(WorkerCount(), 0u);
}

TEST_F(ClusterServerTest, APortInUseIsAnErrorThatNamesTheFlag) {
  Listen();
  const std::string port = server_->address().substr(server_->address().rfind(':') + 1);
  rpc::EventQueue events;
  RouterLoop loop(DispatcherOptions{}, MonotonicClock(), SystemRandom(), events);
  ClusterServer second({.bind = "127.0.0.1", .port = std::stoi(port), .members = {.model = "tiny"}}, MonotonicClock(),
                       SystemRandom(), loop, events);
  const absl::Status listening = second.Listen();
  EXPECT_TRUE(absl::IsUnavailable(listening));
  EXPECT_THAT(std::string(listening.message()), HasSubstr("--cluster-port"));
  EXPECT_THAT(std::string(listening.message()), HasSubstr(port));
}

TEST_F(ClusterServerTest, ItEndsWithOpenStreamsAndRunningJobs) {
  Listen();
  TestWorker member(server_->address());
  member.Join(1);
  TestWorker silent(server_->address());
  Submit(1);
  ASSERT_TRUE(member.Read().has_value());
  server_.reset();
  const grpc::Status told = member.Finish();
  EXPECT_EQ(told.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(told.error_message(), "the router ends");
  EXPECT_FALSE(silent.Finish().ok());
}

}  // namespace
}  // namespace baton::router
