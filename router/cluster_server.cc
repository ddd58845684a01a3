#include "router/cluster_server.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/grpc_server.h"
#include "common/status.h"

namespace baton::router {
namespace {

// A connection without a stream is closed after this time.
constexpr int kIdleConnectionMs = 10'000;
// A worker has one stream, and for a moment two when it joins anew.
constexpr int kStreamsPerConnection = 2;
// How long the workers have to hear that the router ends.
constexpr int64_t kEndMs = 200;

gpr_timespec At(TimeNs time, TimeNs now) {
  if (time == kNever) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(std::max<int64_t>(0, time - now), GPR_TIMESPAN));
}

}  // namespace

ClusterServer::ClusterServer(const ClusterServerOptions& options, const Clock& clock, RandomSource& random,
                             RouterLoop& loop)
    : options_(options), clock_(clock), loop_(loop), members_(options.members, clock, random) {
  loop_.Start(members_);
}

absl::Status ClusterServer::Listen() {
  grpc::ServerBuilder builder;
  rpc::ConfigureServer(builder, static_cast<int>(kMaxWorkerMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
  builder.RegisterService(&service_);
  queue_ = builder.AddCompletionQueue();
  const rpc::ListenAddress where = {.bind = options_.bind, .port = options_.port, .port_flag = "--cluster-port"};
  BATON_ASSIGN_OR_RETURN(rpc::GrpcServer built, rpc::BuildGrpcServer(builder, where, /*has_health=*/false));
  server_ = std::move(built.server);
  address_ = built.address;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

// After the loop, this server's thread is the only one that starts operations on the queue. It shuts the queue down
// itself, because none may start after that.
ClusterServer::~ClusterServer() {
  loop_.Stop();
  if (server_ != nullptr) {
    members_.EndAll(absl::CancelledError("the router ends"));
    rpc::StopGrpcServer(*server_, kEndMs);
    grpc::Alarm stop;
    stop.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), nullptr);
    thread_.join();
  }
  streams_.clear();
  server_.reset();
}

void ClusterServer::Run() {
  AwaitNextWorker();
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    const TimeNs deadline = joining_.empty() ? kNever : joining_.front()->hello_deadline;
    switch (queue_->AsyncNext(&tag, &ok, At(deadline, clock_.Now()))) {
      case grpc::CompletionQueue::SHUTDOWN:
        return;
      case grpc::CompletionQueue::TIMEOUT:
        break;
      case grpc::CompletionQueue::GOT_EVENT:
        if (tag == nullptr) {
          stopping_ = true;
          queue_->Shutdown();
        } else if (!stopping_) {
          Handle(*static_cast<ClusterStream::Tag*>(tag), ok);
        }
        break;
    }
    if (!stopping_) EndSilentStreams();
  }
}

void ClusterServer::AwaitNextWorker() {
  auto stream = std::make_shared<ClusterStream>();
  streams_[stream.get()] = stream;
  stream->Connect(service_, *queue_);
}

void ClusterServer::Handle(const ClusterStream::Tag& tag, bool ok) {
  const std::shared_ptr<ClusterStream> stream = streams_.at(tag.stream);
  if (tag.op == ClusterStream::Op::kConnect && ok) OnConnected(*stream);
  if (tag.op == ClusterStream::Op::kRead) OnRead(stream, ok);
  if (stream->On(tag.op, ok)) streams_.erase(stream.get());
}

void ClusterServer::OnConnected(ClusterStream& stream) {
  AwaitNextWorker();
  if (joining_.size() < static_cast<size_t>(kMaxJoiningStreams)) {
    stream.hello_deadline = After(clock_.Now(), options_.hello_timeout_ms);
    joining_.push_back(&stream);
  } else {
    stream.End(absl::ResourceExhaustedError(
        absl::StrCat("the router waits for the hello of ", kMaxJoiningStreams, " others: join again")));
  }
  stream.Read();
}

void ClusterServer::OnRead(const std::shared_ptr<ClusterStream>& stream, bool ok) {
  if (stream->hello_deadline != kNever) {
    stream->hello_deadline = kNever;
    joining_.erase(std::find(joining_.begin(), joining_.end(), stream.get()));
  }
  loop_.PostWhenRoom([this, stream, ok](Dispatcher& dispatcher) {
    if (!ok) return members_.OnClosed(dispatcher, *stream);
    members_.OnMessage(dispatcher, stream, stream->message());
    stream->Read();
  });
}

void ClusterServer::EndSilentStreams() {
  const TimeNs now = clock_.Now();
  while (!joining_.empty() && joining_.front()->hello_deadline <= now) {
    ClusterStream& stream = *joining_.front();
    joining_.pop_front();
    stream.hello_deadline = kNever;
    stream.End(absl::DeadlineExceededError(
        absl::StrCat("no hello came within ", options_.hello_timeout_ms, " ms of the connection")));
  }
}

}  // namespace baton::router
