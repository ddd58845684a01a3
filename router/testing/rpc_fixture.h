// A gRPC service of the router over a real connection. The worker is a script, and all that lies between is the real
// thing. For tests.
#ifndef BATON_ROUTER_TESTING_RPC_FIXTURE_H_
#define BATON_ROUTER_TESTING_RPC_FIXTURE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/limits.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/event_queue.h"
#include "common/rpc/grpc_server.h"
#include "gtest/gtest.h"
#include "modelfile/testing/tiny_llama.h"
#include "router/rpc_requests.h"
#include "router/testing/scripted_worker.h"
#include "router/testing/tiny_served_model.h"

namespace baton::router {

// Such an output is more than ten times what a connection takes whose client does not read, and less than what a stream
// may hold.
inline constexpr size_t kManyTokens = kMaxUnreadOutputTokens - 96;
inline constexpr int64_t kPatienceNs = 20 * kNsPerSecond;

inline std::vector<int32_t> Letters(size_t count) {
  return std::vector<int32_t>(count, modelfile::kTinyFirstByteToken + 'x');
}

// Keeps the records of the requests that are over.
class KeepingObserver final : public RequestObserver {
 public:
  void OnRequestEnded(const RequestRecord& record) override {
    absl::MutexLock lock(&mutex_);
    records_.push_back(record);
  }
  std::vector<RequestRecord> records() {
    absl::MutexLock lock(&mutex_);
    return records_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<RequestRecord> records_ ABSL_GUARDED_BY(mutex_);
};

// `Service` is made of RpcRequests and whatever `MakeService` adds.
template <typename Service>
class RpcFixture : public ::testing::Test {
 protected:
  explicit RpcFixture(const DispatcherOptions& options = {}) : loop_(options, MonotonicClock(), random_, events_) {}
  ~RpcFixture() override {
    if (server_.server != nullptr) {
      rpc::StopGrpcServer(*server_.server, 0);
      EndServer();
    }
    loop_.Stop();
  }

  virtual std::unique_ptr<Service> MakeService(RpcRequests& requests) = 0;

  // Returns a channel whose windows stay as small as they are at first.
  std::shared_ptr<grpc::Channel> ServeOn(WorkerScript script, const UnreadOutputLimits& unread = {},
                                         int64_t max_idle_stream_ms = kMaxIdleStreamMs) {
    worker_ = std::make_unique<ScriptedWorker>(loop_, std::move(script));
    loop_.Start(*worker_);
    worker_->Join();
    requests_ = std::make_unique<RpcRequests>(RpcRequestsParts{.model = model_,
                                                               .clock = MonotonicClock(),
                                                               .random = random_,
                                                               .generator = generator_,
                                                               .work = work_,
                                                               .events = events_,
                                                               .observers = observers_},
                                              unread, max_idle_stream_ms);
    service_ = MakeService(*requests_);
    auto server = rpc::StartGrpcServer(
        {.bind = "127.0.0.1", .accepting = {service_.get()}, .max_receive_bytes = kMaxMessageBytes});
    BATON_CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
    return Connect();
  }
  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments = rpc::ClientChannelArguments();
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel(server_.address, grpc::InsecureChannelCredentials(), arguments);
  }

  // Once the server has been shut down.
  void EndServer() {
    service_->Stop();
    server_ = {};
  }

  // Until the loop has done all that the worker has posted, and the jobs are as many.
  void WaitForJobs(int32_t jobs) {
    int32_t running = -1;
    while (running != jobs) {
      absl::Notification done;
      loop_.PostWhenRoom([&](Dispatcher& dispatcher) {
        running = dispatcher.running_jobs() + dispatcher.queued_jobs() + dispatcher.paused_jobs();
        done.Notify();
      });
      done.WaitForNotification();
    }
  }
  // The record of the only request, once it is over.
  RequestRecord OnlyRecord() {
    EXPECT_TRUE(WaitFor([this] { return observer_.records().size() == 1; }));
    return observer_.records().at(0);
  }
  // Until the router cancels a call to the worker; false when it does not.
  bool WaitForCancel() {
    return WaitFor([this] { return worker_->cancelled() > 0; }) && worker_->cancelled() == 1;
  }
  static bool WaitFor(const std::function<bool()>& condition) {
    const TimeNs give_up = MonotonicClock().Now() + kPatienceNs;
    while (!condition() && MonotonicClock().Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
    return condition();
  }
  // Requests of this size wait from now on, until the test ends or Release.
  void Occupy(size_t bytes) {
    absl::Notification busy;
    ASSERT_TRUE(work_.Post({.id = {.high = 1, .low = 1}, .bytes = bytes, .run = [&](const absl::Status&) {
                              busy.Notify();
                              release_.WaitForNotification();
                            }}));
    busy.WaitForNotification();
  }

  const ServedModel model_ = TestModel();
  SeededRandom random_{1};
  rpc::EventQueue events_;
  RouterLoop loop_;
  std::unique_ptr<ScriptedWorker> worker_;
  Generator generator_{model_, MonotonicClock(), random_, loop_};
  KeepingObserver observer_;
  const RequestObservers observers_{.clock = MonotonicClock(), .observers = {&observer_}};
  absl::Notification release_;
  ClientWork work_{MonotonicClock()};
  std::unique_ptr<RpcRequests> requests_;
  std::unique_ptr<Service> service_;
  rpc::GrpcServer server_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_RPC_FIXTURE_H_
