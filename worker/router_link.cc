#include "worker/router_link.h"

#include "common/log.h"
#include "common/rpc/channel_cache.h"

namespace baton::worker {
namespace pb = internal::v1;
namespace {

constexpr absl::Duration kHeartbeatInterval = absl::Milliseconds(100);
constexpr absl::Duration kRejoinInterval = absl::Milliseconds(250);

// Shared with the stream's callbacks, which may outlive JoinOnce.
struct JoinState {
  absl::Mutex mutex;
  bool accepted ABSL_GUARDED_BY(mutex) = false;
  bool done ABSL_GUARDED_BY(mutex) = false;
  grpc::Status status ABSL_GUARDED_BY(mutex);
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
    const std::string loss = JoinOnce(stub);
    absl::MutexLock lock(&mutex_);
    // A router that stops with its cluster is gone a moment before its workers hear of it.
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kRejoinInterval)) return;
    if (!loss.empty()) spdlog::warn("the router at {} is gone: {}; joining again", options_.router_target, loss);
  }
}

std::string RouterLink::JoinOnce(pb::WorkerRegistryService::Stub& stub) {
  auto state = std::make_shared<JoinState>();
  auto stream =
      Stream::Create([&stub](grpc::ClientContext* context, auto* reactor) { stub.async()->Join(context, reactor); },
                     {.on_message =
                          [state](const pb::JoinResponse&) {
                            absl::MutexLock lock(&state->mutex);
                            state->accepted = true;
                          },
                      .on_done =
                          [state](const grpc::Status& status) {
                            absl::MutexLock lock(&state->mutex);
                            state->done = true;
                            state->status = status;
                          }});
  pb::JoinRequest hello;
  *hello.mutable_hello() = options_.hello;
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
    open = open && !state->done;
  }
  stream->HalfClose();
  absl::MutexLock lock(&state->mutex);
  if (!state->mutex.AwaitWithTimeout(absl::Condition(&state->done), absl::Seconds(1))) stream->Cancel();
  // The callbacks reach into `stub`'s call only: wait for the last of them.
  state->mutex.Await(absl::Condition(&state->done));
  return state->status.ok() || !state->accepted ? "" : state->status.error_message();
}

}  // namespace baton::worker
