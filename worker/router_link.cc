#include "worker/router_link.h"

#include <optional>
#include <string>

#include "common/log.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"

namespace baton::worker {
namespace pb = internal::v1;
namespace {

constexpr absl::Duration kHeartbeatInterval = absl::Milliseconds(100);
constexpr absl::Duration kRejoinInterval = absl::Milliseconds(250);

// Shared with the stream's callbacks, which may outlive JoinOnce.
struct JoinState {
  absl::Mutex mutex;
  // What the router's answer says about the protocol; none before it.
  std::optional<absl::Status> answer ABSL_GUARDED_BY(mutex);
  bool done ABSL_GUARDED_BY(mutex) = false;
  absl::Status status ABSL_GUARDED_BY(mutex);

  bool CanGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !done && (!answer.has_value() || answer->ok()); }
};

}  // namespace

void RouterLink::Start() {
  thread_ = std::thread([this] { Run(); });
}

void RouterLink::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void RouterLink::Run() {
  const auto channel =
      grpc::CreateCustomChannel(options_.router_target, grpc::InsecureChannelCredentials(), rpc::ChannelArguments());
  pb::WorkerRegistryService::Stub stub(channel);
  while (true) {
    const Ended ended = JoinOnce(stub);
    absl::MutexLock lock(&mutex_);
    // A router that stops with its cluster is gone a moment before its workers hear of it.
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kRejoinInterval)) return;
    Log(ended);
  }
}

// A router that is not up yet is no news. A refusal is said once: the worker asks again several times a second.
void RouterLink::Log(const Ended& ended) {
  const std::string why(ended.status.message());
  if (ended.was_accepted) {
    logged_refusal_.clear();
    if (!ended.status.ok()) spdlog::warn("the router at {} is gone: {}; joining again", options_.router_target, why);
  } else if (absl::IsFailedPrecondition(ended.status) && why != logged_refusal_) {
    logged_refusal_ = why;
    spdlog::error("cannot join the router at {}: {}; asking again", options_.router_target, why);
  }
}

RouterLink::Ended RouterLink::JoinOnce(pb::WorkerRegistryService::Stub& stub) {
  auto state = std::make_shared<JoinState>();
  auto stream =
      Stream::Create([&stub](grpc::ClientContext* context, auto* reactor) { stub.async()->Join(context, reactor); },
                     {.on_message =
                          [state](const pb::JoinResponse& response) {
                            absl::MutexLock lock(&state->mutex);
                            state->answer = rpc::CheckProtocolVersion("router", response.accepted().protocol_version());
                          },
                      .on_done =
                          [state](const grpc::Status& status) {
                            absl::MutexLock lock(&state->mutex);
                            state->done = true;
                            state->status = rpc::FromGrpc(status);
                          }});
  pb::JoinRequest hello;
  *hello.mutable_hello() = options_.hello;
  hello.mutable_hello()->set_protocol_version(rpc::kProtocolVersion);
  hello.mutable_hello()->set_features(rpc::kProtocolFeatures);
  bool open = stream->Push(hello);
  while (open) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kHeartbeatInterval)) break;
    }
    pb::JoinRequest message;
    *message.mutable_heartbeat() = options_.load();
    message.mutable_heartbeat()->set_draining(draining_);
    open = stream->Push(std::move(message));
    absl::MutexLock lock(&state->mutex);
    open = open && state->CanGoOn();
  }
  stream->HalfClose();
  absl::MutexLock lock(&state->mutex);
  if (!state->mutex.AwaitWithTimeout(absl::Condition(&state->done), absl::Seconds(1))) stream->Cancel();
  // The callbacks reach into `stub`'s call only: wait for the last of them.
  state->mutex.Await(absl::Condition(&state->done));
  const bool was_accepted = state->answer.has_value() && state->answer->ok();
  return {was_accepted, state->answer.has_value() && !was_accepted ? *state->answer : state->status};
}

}  // namespace baton::worker
