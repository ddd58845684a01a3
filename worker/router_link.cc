#include "worker/router_link.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"

namespace baton::worker {
namespace pb = internal::v1;
namespace {

// How often the link looks whether it has to stop. A heartbeat may be due more often.
constexpr int64_t kTickMs = 50;
constexpr int64_t kFirstBackoffMs = 100;
constexpr int64_t kMaxBackoffMs = 1'000;
// An attempt to join begins with a question to a name server, which is asked again from the same port for as long as
// the attempt lasts. A network of containers that has just changed may lose all that comes from that port, or may have
// told the address of a router that is gone. Then only another attempt gets through.
constexpr int64_t kMaxPatienceMs = 8'000;
// How long the router has to end a stream that the worker leaves.
constexpr int64_t kLeaveTimeoutMs = 1'000;
constexpr int64_t kMinHeartbeatMs = 10;
constexpr int64_t kMaxHeartbeatMs = 1'000;

bool Progresses(const pb::Load& load) { return load.step_age_ms() <= kEngineStallMs; }

void Log(const std::optional<LogLine>& line) {
  if (!line.has_value()) return;
  const auto level = line->level == LogLine::Level::kInfo      ? spdlog::level::info
                     : line->level == LogLine::Level::kWarning ? spdlog::level::warn
                                                               : spdlog::level::err;
  spdlog::log(level, line->text);
}

}  // namespace

void StateProtocol(pb::Hello& hello) {
  hello.set_protocol_version(rpc::kProtocolVersion);
  hello.set_features(rpc::kProtocolFeatures);
}

void RouterLink::Start() {
  thread_ = std::thread([this] { Run(); });
}

void RouterLink::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

void RouterLink::SetWanted(bool wanted) {
  absl::MutexLock lock(&mutex_);
  wanted_ = wanted;
}

bool RouterLink::is_member() const {
  absl::MutexLock lock(&mutex_);
  return is_member_;
}

int64_t RouterLink::joins() const {
  absl::MutexLock lock(&mutex_);
  return joins_;
}

void RouterLink::SetMember(bool is_member) {
  absl::MutexLock lock(&mutex_);
  is_member_ = is_member;
  if (is_member) ++joins_;
}

void RouterLink::AskToStop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void RouterLink::Stop() {
  AskToStop();
  if (thread_.joinable()) thread_.join();
}

void RouterLink::Run() {
  grpc::CompletionQueue queue;
  int64_t backoff_ms = 0;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), absl::Milliseconds(backoff_ms))) break;
      backoff_ms = std::clamp(2 * backoff_ms, kFirstBackoffMs, kMaxBackoffMs);
      if (draining_ || !wanted_) continue;
    }
    if (!MayJoin()) continue;
    // A channel of its own, because a router that starts anew may have another address under its name, as a container
    // does. A channel would go on with the old one for up to half a minute.
    pb::ClusterService::Stub stub(grpc::CreateCustomChannel(
        options_.router_target, rpc::ChannelCredentialsOf(options_.credentials, rpc::Peer::kRouter),
        rpc::ChannelArguments()));
    const Ended ended = JoinOnce(stub, queue);
    if (ended.was_accepted) {
      backoff_ms = 0;
      Log(join_log_.OnEnded(ended.left ? absl::OkStatus() : ended.status));
    } else if (!ended.left) {
      Log(join_log_.OnNotJoined(ended.status));
    }
    Log(join_log_.OnTick());
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

bool RouterLink::MayJoin() {
  // A process that dies would get jobs for its last moments.
  if (options_.fault().has_value()) return false;
  const pb::Load load = options_.load();
  if (Progresses(load)) return true;
  Log(join_log_.OnStuck(load.step_age_ms()));
  return false;
}

RouterLink::Ended RouterLink::JoinOnce(pb::ClusterService::Stub& stub, grpc::CompletionQueue& queue) {
  pb::Hello hello = options_.hello;
  StateProtocol(hello);
  hello.set_resumes(last_membership_);
  Membership member;
  member.stream = std::make_shared<GrpcRouterStream>(stub, queue, hello);
  member.give_up_at = After(MonotonicClock().Now(), patience_ms_);
  while (!member.stream->done()) {
    void* tag = nullptr;
    bool ok = false;
    const int64_t tick_ms = member.accepted ? std::min(kTickMs, member.heartbeat_interval_ms) : kTickMs;
    const gpr_timespec tick = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(tick_ms, GPR_TIMESPAN));
    const auto next = queue.AsyncNext(&tag, &ok, tick);
    if (next == grpc::CompletionQueue::GOT_EVENT && member.stream->On(GrpcRouterStream::OpOf(tag), ok)) {
      OnMessage(member);
      member.stream->Read();
    }
    Tick(member);
  }
  if (member.told_fault) options_.on_fault_told();
  if (member.accepted) {
    SetMember(false);
    options_.post([&calls = calls_] { calls.OnLost(absl::UnavailableError("the router is gone")); });
  }
  TellServing(false);
  return {.was_accepted = member.accepted,
          .left = member.leaving || member.told_fault,
          .status = member.refusal.ok() ? member.stream->status() : member.refusal};
}

void RouterLink::OnMessage(Membership& member) {
  if (!member.refusal.ok()) return;
  auto message = std::make_shared<pb::RouterMessage>(std::move(member.stream->message()));
  if (message->has_accepted() && !member.accepted) OnAccepted(member, message->accepted());
  if (!member.accepted) return member.stream->Cancel();
  if (message->drain()) options_.on_drain_ordered();
  options_.post([&calls = calls_, message] { calls.OnMessage(*message); });
}

void RouterLink::OnAccepted(Membership& member, const pb::Accepted& accepted) {
  member.refusal = rpc::CheckProtocolVersion("router", accepted.protocol_version());
  if (member.refusal.ok()) member.refusal = rpc::FromBytes(accepted.membership()).status();
  if (!member.refusal.ok()) return;
  member.accepted = true;
  member.give_up_at = kNever;
  patience_ms_ = kFirstPatienceMs;
  last_membership_ = accepted.membership();
  member.heartbeat_interval_ms =
      std::clamp<int64_t>(accepted.heartbeat_interval_ms(), kMinHeartbeatMs, kMaxHeartbeatMs);
  member.stream->SetMembership(last_membership_);
  SetMember(true);
  Log(join_log_.OnJoined());
  options_.post([&calls = calls_, stream = member.stream, features = accepted.features() & rpc::kProtocolFeatures] {
    calls.OnJoined(stream, features);
  });
}

void RouterLink::Tick(Membership& member) {
  const TimeNs now = MonotonicClock().Now();
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_ && !std::exchange(member.leaving, true)) {
      member.give_up_at = After(now, member.accepted ? kLeaveTimeoutMs : 0);
      member.stream->HalfClose();
    }
  }
  if (member.accepted) TellFault(member);
  if (now >= member.give_up_at) {
    if (!member.leaving) LosePatience(member);
    member.stream->Cancel();
  }
  if (!member.accepted && !member.leaving) Log(join_log_.OnTick());
  if (!member.accepted || now < member.next_heartbeat) return;
  member.next_heartbeat = After(now, member.heartbeat_interval_ms);
  pb::Load load = options_.load();
  {
    absl::MutexLock lock(&mutex_);
    load.set_draining(draining_);
  }
  TellServing(Progresses(load) && !load.draining());
  // A heartbeat that was not written yet is replaced.
  member.stream->Send(load.ByteSizeLong(), [&](pb::WorkerMessage& message) { *message.mutable_load() = load; });
}

void RouterLink::TellFault(Membership& member) {
  if (member.told_fault) return;
  const std::optional<pb::Fault> fault = options_.fault();
  if (!fault.has_value()) return;
  member.told_fault = true;
  member.stream->Send(fault->ByteSizeLong(), [&](pb::WorkerMessage& message) { *message.mutable_fault() = *fault; });
  member.stream->HalfClose();
}

void RouterLink::LosePatience(Membership& member) {
  member.give_up_at = kNever;
  member.refusal = absl::UnavailableError(absl::StrCat("no answer within ", patience_ms_, " ms"));
  patience_ms_ = std::min(2 * patience_ms_, kMaxPatienceMs);
}

void RouterLink::TellServing(bool serving) {
  if (serving != std::exchange(serving_, serving)) options_.on_serving(serving);
}

}  // namespace baton::worker
