#include "cli/drain_command.h"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/admin.grpc.pb.h"
#include "cli/process.h"
#include "cli/router_channel.h"
#include "common/clock.h"
#include "common/drain.h"
#include "common/duration_text.h"
#include "common/rpc/client_error.h"
#include "common/status.h"

namespace baton::cli {
namespace {

// How long each call to the router may take.
constexpr std::chrono::seconds kDrainAnswerTimeout{5};
constexpr int64_t kDrainLookMs = 100;
// A line for each request that leaves would hide the others.
constexpr int64_t kDrainLineMs = 1'000;

struct DrainFlags {
  TargetFlags router;
  std::string worker;
  int64_t timeout_ms = 0;
};

// The drain of one worker, as its router tells of it.
class DrainClient {
 public:
  DrainClient(const DrainFlags& flags, std::shared_ptr<grpc::Channel> channel)
      : flags_(flags), stub_(v1::AdminService::NewStub(std::move(channel))) {}

  // Orders it, says so, and returns when the worker has left.
  absl::Status Run();

 private:
  absl::Status Order();
  absl::Status Follow();
  // OK also while the worker still drains.
  absl::Status Look(v1::GetDrainResponse& drain);
  void SayProgress(int32_t open_calls);
  // "decode worker 127.0.0.1:50062 (pid 17)"
  std::string Name() const {
    return absl::StrCat(worker_.role(), " worker ", worker_.address(), " (pid ", worker_.pid(), ")");
  }
  absl::Status Explain(const grpc::ClientContext& context, const grpc::Status& status) const;

  const DrainFlags& flags_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
  const TimeNs began_ = MonotonicClock().Now();
  v1::DrainWorkerResponse worker_;
  // What the last line of progress said, and when.
  int32_t said_calls_ = -1;
  TimeNs said_at_ = 0;
};

std::string RequestsText(int32_t count) { return absl::StrCat(count, count == 1 ? " request" : " requests"); }

absl::Status DrainClient::Explain(const grpc::ClientContext& context, const grpc::Status& status) const {
  // A router answers nothing else to a method that it does not know.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return absl::UnimplementedError(absl::StrCat(
        flags_.router.target, " knows no drains: it is a router of a former version, or none; --target names the ",
        "--grpc-port of `baton serve` or `baton router`"));
  }
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return absl::UnauthenticatedError(absl::StrCat("UNAUTHENTICATED: ", status.error_message(),
                                                   "; --tls-cert and --tls-key name one of the role operator"));
  }
  return rpc::ExplainRouterError(context, status, flags_.router.target);
}

absl::Status DrainClient::Order() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDrainAnswerTimeout);
  v1::DrainWorkerRequest request;
  request.set_worker(flags_.worker);
  const grpc::Status status = stub_->DrainWorker(&context, request, &worker_);
  if (!status.ok()) return Explain(context, status);
  if (worker_.last_for().empty()) return absl::OkStatus();
  std::cout << "no other worker of group " << worker_.group() << " serves for " << worker_.last_for()
            << ": what runs there stays until it ends; what has not ended after "
            << DurationText(worker_.drain_timeout_ms() * kNsPerMs)
            << " is cut, and goes on if another such worker joins within a minute; new requests fail until one joins"
            << std::endl;
  return absl::OkStatus();
}

absl::Status DrainClient::Look(v1::GetDrainResponse& drain) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDrainAnswerTimeout);
  v1::GetDrainRequest request;
  request.set_incarnation(worker_.incarnation());
  const grpc::Status status = stub_->GetDrain(&context, request, &drain);
  if (!status.ok()) {
    const absl::Status why = Explain(context, status);
    return {why.code(), absl::StrCat(why.message(), "; ", Name(), " goes on draining")};
  }
  if (drain.state() != "lost") return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(Name(), " was lost before it had drained: ", drain.why()));
}

void DrainClient::SayProgress(int32_t open_calls) {
  const TimeNs now = MonotonicClock().Now();
  if (open_calls == said_calls_ || (said_calls_ >= 0 && now < After(said_at_, kDrainLineMs))) return;
  said_calls_ = open_calls;
  said_at_ = now;
  std::cout << Name() << " drains: " << RequestsText(open_calls) << " left" << std::endl;
}

absl::Status DrainClient::Follow() {
  const int64_t timeout_ms = flags_.timeout_ms > 0 ? flags_.timeout_ms : worker_.drain_timeout_ms() + kDrainMarginMs;
  while (true) {
    v1::GetDrainResponse drain;
    BATON_RETURN_IF_ERROR(Look(drain));
    const TimeNs now = MonotonicClock().Now();
    if (drain.state() == "left") {
      std::cout << Name() << " has left after " << DurationText(now - began_) << std::endl;
      return absl::OkStatus();
    }
    if (now >= After(began_, timeout_ms)) {
      return absl::DeadlineExceededError(absl::StrCat(Name(), " has not left within ", timeout_ms, " ms, ",
                                                      RequestsText(drain.open_calls()), " left: it goes on draining"));
    }
    SayProgress(drain.open_calls());
    absl::SleepFor(absl::Milliseconds(kDrainLookMs));
  }
}

absl::Status DrainClient::Run() {
  BATON_RETURN_IF_ERROR(Order());
  return Follow();
}

absl::Status DrainAndWait(const DrainFlags& flags) {
  BATON_ASSIGN_OR_RETURN(auto channel, OpenChannel(flags.router));
  return DrainClient(flags, std::move(channel)).Run();
}

}  // namespace

void AddDrainCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DrainFlags>();
  CLI::App* command = app.add_subcommand(
      "drain", "ends a worker in order: it takes no new requests, and those that run go on elsewhere");
  command
      ->add_option("WORKER", flags->worker, "its address, its pid, or its incarnation, as `baton status` prints them")
      ->required();
  AddTargetFlags(*command, flags->router);
  command
      ->add_option("--timeout-ms", flags->timeout_ms,
                   "how long to wait until it has left; 0: 5 s more than the worker's --drain-timeout-ms")
      ->check(CLI::Range(0, kMaxDrainTimeoutMs))
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = Report(DrainAndWait(*flags)); });
}

}  // namespace baton::cli
