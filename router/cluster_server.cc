#include "router/cluster_server.h"

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

}  // namespace

ClusterServer::ClusterServer(const ClusterServerOptions& options, const Clock& clock, RandomSource& random,
                             RouterLoop& loop, rpc::EventQueue& events)
    : options_(options), loop_(loop), events_(events), members_(options.members, clock, random) {
  loop_.Start(members_);
}

absl::Status ClusterServer::Listen() {
  grpc::ServerBuilder builder;
  rpc::ConfigureServer(builder, static_cast<int>(kMaxWorkerMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
  builder.RegisterService(&service_);
  accepting_.emplace(builder.AddCompletionQueue());
  const rpc::ListenAddress where = {.bind = options_.bind,
                                    .port = options_.port,
                                    .port_flag = "--cluster-port",
                                    .credentials = options_.credentials,
                                    .guard = {.rules = {.port = rpc::Port::kCluster}}};
  BATON_ASSIGN_OR_RETURN(rpc::GrpcServer built, rpc::BuildGrpcServer(builder, where, /*has_health=*/false));
  server_ = std::move(built.server);
  address_ = built.address;
  AwaitNextWorker();
  accepting_->Start();
  return absl::OkStatus();
}

// The server ends before the loop that handles its streams, and the loop before the members that it calls.
ClusterServer::~ClusterServer() {
  if (server_ != nullptr) {
    loop_.PostWhenRoom([this](Dispatcher&) { members_.EndAll(absl::CancelledError("the router ends")); });
    rpc::StopGrpcServer(*server_, kEndMs);
    accepting_->Stop();
    absl::MutexLock lock(&mutex_);
    const auto none_open = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_streams_ == 0; };
    mutex_.Await(absl::Condition(&none_open));
  }
  loop_.Stop();
}

void ClusterServer::OnAnnounced(std::vector<internal::v1::Hello> hellos) {
  loop_.PostWhenRoom(
      [this, hellos = std::move(hellos)](Dispatcher& dispatcher) { members_.OnAnnounced(dispatcher, hellos); });
}

void ClusterServer::CountOpen(int change) {
  absl::MutexLock lock(&mutex_);
  open_streams_ += change;
}

void ClusterServer::AwaitNextWorker() {
  if (accepting_->stopping()) return;
  next_ = std::make_shared<ClusterStream>(static_cast<ClusterStream::Owner&>(*this), events_, options_.credentials);
  next_->Connect(service_, accepting_->queue());
}

void ClusterServer::OnConnected(ClusterStream& stream, bool ok) {
  if (!ok) return;
  CountOpen(1);
  loop_.PostWhenRoom([this, connected = std::move(next_)](Dispatcher& dispatcher) {
    streams_[connected.get()] = connected;
    Adopt(*connected, dispatcher);
  });
  AwaitNextWorker();
}

void ClusterServer::Adopt(ClusterStream& stream, Dispatcher& dispatcher) {
  dispatcher_ = &dispatcher;
  if (joining_ < kMaxJoiningStreams) {
    ++joining_;
    stream.AwaitHello(options_.hello_timeout_ms);
  } else {
    stream.End(absl::ResourceExhaustedError(
        absl::StrCat("the router waits for the hello of ", kMaxJoiningStreams, " others: join again")));
  }
  stream.Read();
}

void ClusterServer::OnMessage(ClusterStream& stream) {
  if (stream.awaits_hello()) --joining_;
  members_.OnMessage(*dispatcher_, streams_.at(&stream), stream.message());
  stream.Read();
}

void ClusterServer::OnHelloTimeout(ClusterStream& stream) {
  --joining_;
  stream.End(absl::DeadlineExceededError(
      absl::StrCat("no hello came within ", options_.hello_timeout_ms, " ms of the connection")));
}

void ClusterServer::OnClosed(ClusterStream& stream) {
  if (stream.awaits_hello()) --joining_;
  members_.OnClosed(*dispatcher_, stream);
}

void ClusterServer::OnDone(ClusterStream& stream) {
  streams_.erase(&stream);
  CountOpen(-1);
}

}  // namespace baton::router
