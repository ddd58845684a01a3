// A router's members and dispatcher, and workers that are streams of the test's own.
#ifndef BATON_ROUTER_TESTING_CLUSTER_MEMBERS_FIXTURE_H_
#define BATON_ROUTER_TESTING_CLUSTER_MEMBERS_FIXTURE_H_

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"
#include "router/cluster_members.h"
#include "router/testing/worker_hello.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace baton::router {

namespace pb = internal::v1;

// Keeps what the router says to one worker.
class FakeStream final : public WorkerStream {
 public:
  void Send(size_t bytes, absl::FunctionRef<void(pb::RouterMessage&)> fill) override {
    if (ended()) return;
    pb::RouterMessage message;
    fill(message);
    EXPECT_LE(message.ByteSizeLong(), bytes);
    said.MergeFrom(message);
  }
  void End(const absl::Status& why) override {
    if (!ended()) end = why;
  }
  bool ended() const override { return end.has_value(); }

  pb::RouterMessage said;
  std::optional<absl::Status> end;
};

// What is logged while it lives.
class LoggedLines {
 public:
  LoggedLines() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LoggedLines() { spdlog::set_default_logger(before_); }

  // Since the last call.
  std::string Take() {
    std::string lines = lines_.str();
    lines_.str("");
    return lines;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream lines_;
};

// One worker's end: its stream, and the membership that it was given.
struct FakeWorker {
  std::shared_ptr<FakeStream> stream = std::make_shared<FakeStream>();

  pb::WorkerMessage Message() const {
    pb::WorkerMessage message;
    message.set_membership(stream->said.accepted().membership());
    return message;
  }
  // A heartbeat of a worker that drains.
  pb::WorkerMessage Draining() const {
    pb::WorkerMessage message = Message();
    message.mutable_load()->set_draining(true);
    return message;
  }
  // The number of the last call that was started.
  uint64_t last_call() const { return stream->said.starts(stream->said.starts_size() - 1).call(); }
};

class ClusterMembersTest : public ::testing::Test {
 protected:
  explicit ClusterMembersTest(rpc::CapabilitySigner* capabilities = nullptr)
      : members_({.model = "tiny",
                  .vocab_size = 300,
                  .on_serving = [this](bool serving) { serving_.push_back(serving); },
                  .capabilities = capabilities},
                 clock_, random_) {}

  FakeWorker Join(const pb::Hello& hello) {
    FakeWorker worker;
    pb::WorkerMessage message;
    *message.mutable_hello() = hello;
    Say(worker, message);
    return worker;
  }
  FakeWorker Join(uint64_t n, pb::WorkerRole role) { return Join(MakeHello(n, role)); }
  void Say(const FakeWorker& worker, const pb::WorkerMessage& message) {
    members_.OnMessage(dispatcher_, worker.stream, message);
    Apply();
  }
  void Close(const FakeWorker& worker) {
    members_.OnClosed(dispatcher_, *worker.stream);
    Apply();
  }
  // The job may be placed, but nothing of it is sent before Apply.
  void Place(uint64_t n, const SamplingParams& sampling) {
    auto job = std::make_shared<JobSpec>();
    job->id = {.high = 2, .low = n};
    job->prompt.assign(40, 7);
    job->sampling = sampling;
    job->tenant = "tenant";
    job->trace.traceparent = "trace";
    ASSERT_TRUE(dispatcher_.Submit(std::move(job)).ok());
  }
  void Submit(uint64_t n, int32_t max_tokens = 4) {
    Place(n, {.max_tokens = max_tokens});
    Apply();
  }
  void Apply() {
    for (const DispatchAction& action : dispatcher_.TakeActions()) {
      if (const auto* start_p = std::get_if<StartPrefill>(&action)) members_.Start(*start_p);
      if (const auto* start_d = std::get_if<StartDecode>(&action)) members_.Start(*start_d);
      if (const auto* cancel = std::get_if<CancelAttempt>(&action)) members_.Cancel(*cancel);
      if (const auto* move = std::get_if<HandOverAttempt>(&action)) members_.Move(*move);
      if (const auto* end = std::get_if<EndMembership>(&action)) members_.End(*end);
      if (const auto* drain = std::get_if<DrainWorker>(&action)) members_.Drain(*drain);
      if (const auto* emit = std::get_if<EmitToken>(&action)) emitted_.push_back(emit->token.token);
      if (const auto* end_job = std::get_if<EndJob>(&action)) results_.push_back(end_job->result.status);
    }
  }
  // What the one worker that states the feature is told of the sampling of two jobs that need it. The other worker
  // states every other feature, and gets none of them.
  pb::Sampling SaidToWhoKnows(uint64_t feature, const SamplingParams& sampling) {
    pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
    hello.set_features(rpc::kProtocolFeatures & ~feature);
    const FakeWorker former = Join(hello);
    hello = MakeHello(2, pb::WORKER_ROLE_MIXED);
    hello.set_features(feature);
    const FakeWorker knows = Join(hello);
    for (uint64_t n = 1; n <= 2; ++n) {
      Place(n, sampling);
      Apply();
    }
    EXPECT_EQ(former.stream->said.starts_size(), 0);
    EXPECT_EQ(knows.stream->said.starts_size(), 2);
    return knows.stream->said.starts_size() == 0 ? pb::Sampling() : knows.stream->said.starts(0).job().sampling();
  }
  static void AddToken(pb::WorkerMessage& message, uint64_t call, OutputToken token) {
    rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kToken, .token = std::move(token)}, &message);
  }
  size_t worker_count() const { return dispatcher_.registry().workers().size(); }

  ManualClock clock_;
  SeededRandom random_{1};
  // A job ends with its worker.
  Dispatcher dispatcher_{DispatcherOptions{.max_losses = 0}, clock_, random_};
  std::vector<bool> serving_;
  ClusterMembers members_;
  std::vector<int32_t> emitted_;
  std::vector<absl::Status> results_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_CLUSTER_MEMBERS_FIXTURE_H_
