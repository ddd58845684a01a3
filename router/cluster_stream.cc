#include "router/cluster_stream.h"

#include <utility>

#include "common/limits.h"
#include "common/rpc/wire.h"

namespace baton::router {
namespace pb = internal::v1;

ClusterStream::ClusterStream() : writes_(kMaxUnwrittenRouterBytes) {}

void ClusterStream::Connect(Service& service, grpc::ServerCompletionQueue& queue) {
  service.RequestJoin(&context_, &call_, &queue, &queue, &connect_tag_);
}

void ClusterStream::Send(size_t bytes, absl::FunctionRef<void(pb::RouterMessage&)> fill) {
  absl::MutexLock lock(&mutex_);
  if (end_.has_value()) return;
  if (!writes_.Add(bytes, fill)) {
    end_.emplace(grpc::StatusCode::RESOURCE_EXHAUSTED, "the worker does not read what the router sends");
    // The write in flight may never end by itself.
    context_.TryCancel();
  }
  Advance();
}

void ClusterStream::End(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (end_.has_value()) return;
  end_ = rpc::ToGrpc(why);
  Advance();
}

bool ClusterStream::ended() const {
  absl::MutexLock lock(&mutex_);
  return end_.has_value();
}

void ClusterStream::Advance() {
  if (!end_.has_value()) {
    writes_.WriteNext([this](const pb::RouterMessage& message) { call_.Write(message, &write_tag_); });
  } else if (!writes_.writing() && !std::exchange(finishing_, true)) {
    call_.Finish(*end_, &finish_tag_);
  }
}

bool ClusterStream::On(Op op, bool ok) {
  absl::MutexLock lock(&mutex_);
  switch (op) {
    case Op::kConnect:
      return !ok;
    case Op::kRead:
      // The worker has left, or its connection broke.
      read_failed_ = !ok;
      if (!ok && !end_.has_value()) end_ = grpc::Status::OK;
      break;
    case Op::kWrite:
      writes_.WriteDone();
      break;
    case Op::kFinish:
      finished_ = true;
      break;
  }
  Advance();
  return finished_ && read_failed_;
}

}  // namespace baton::router
