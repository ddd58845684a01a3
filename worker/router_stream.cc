#include "worker/router_stream.h"

#include <array>
#include <utility>

#include "common/limits.h"
#include "common/rpc/wire.h"

namespace baton::worker {
namespace pb = internal::v1;

GrpcRouterStream::GrpcRouterStream(pb::ClusterService::Stub& stub, grpc::CompletionQueue& queue, const pb::Hello& hello)
    : writes_(kMaxWorkerMessageBytes) {
  absl::MutexLock lock(&mutex_);
  writes_.Add(hello.ByteSizeLong(), [&](pb::WorkerMessage& message) { *message.mutable_hello() = hello; });
  call_ = stub.AsyncJoin(&context_, &queue, Begin(Op::kStart));
}

void* GrpcRouterStream::TagOf(Op op) {
  static constexpr std::array<Op, 5> kTags = {Op::kStart, Op::kRead, Op::kWrite, Op::kHalfClose, Op::kFinish};
  // gRPC takes tags as mutable, and only gives them back.
  return const_cast<Op*>(&kTags[static_cast<size_t>(op)]);
}

void* GrpcRouterStream::Begin(Op op) {
  ++ops_;
  return TagOf(op);
}

void GrpcRouterStream::SetMembership(const std::string& membership) {
  absl::MutexLock lock(&mutex_);
  membership_ = membership;
}

void GrpcRouterStream::Send(size_t bytes, absl::FunctionRef<void(pb::WorkerMessage&)> fill) {
  absl::MutexLock lock(&mutex_);
  if (over_ || half_close_ != Closing::kNo) return;
  const std::string* membership = &membership_;
  const bool fits = writes_.Add(bytes, [&](pb::WorkerMessage& message) {
    if (message.membership().empty()) message.set_membership(*membership);
    fill(message);
  });
  if (!fits) {
    overflowed_ = true;
    over_ = true;
    context_.TryCancel();
  }
  Advance();
}

void GrpcRouterStream::HalfClose() {
  absl::MutexLock lock(&mutex_);
  if (half_close_ == Closing::kNo) half_close_ = Closing::kWanted;
  Advance();
}

void GrpcRouterStream::Read() {
  absl::MutexLock lock(&mutex_);
  call_->Read(&message_, Begin(Op::kRead));
}

void GrpcRouterStream::Advance() {
  if (!open_ || over_) return;
  // Under this lock, the queue's word that the write is done comes after it is counted.
  bool writes = false;
  writes_.WriteNext([&](const pb::WorkerMessage& message) {
    call_->Write(message, TagOf(Op::kWrite));
    writes = true;
  });
  if (writes) ++ops_;
  if (half_close_ != Closing::kWanted || writes_.writing()) return;
  half_close_ = Closing::kDone;
  call_->WritesDone(Begin(Op::kHalfClose));
}

bool GrpcRouterStream::On(Op op, bool ok) {
  absl::MutexLock lock(&mutex_);
  --ops_;
  switch (op) {
    case Op::kStart:
      open_ = ok;
      if (ok) call_->Read(&message_, Begin(Op::kRead));
      break;
    case Op::kWrite:
      writes_.WriteDone();
      break;
    case Op::kRead:
    case Op::kHalfClose:
    case Op::kFinish:
      break;
  }
  if (ok && op == Op::kRead) return true;
  if (!ok && (op == Op::kRead || op == Op::kStart) && !std::exchange(finishing_, true)) {
    over_ = true;
    call_->Finish(&grpc_status_, Begin(Op::kFinish));
  }
  Advance();
  return false;
}

bool GrpcRouterStream::done() const {
  absl::MutexLock lock(&mutex_);
  return finishing_ && ops_ == 0;
}

absl::Status GrpcRouterStream::status() const {
  absl::MutexLock lock(&mutex_);
  if (overflowed_) return absl::ResourceExhaustedError("the router does not read what this worker sends");
  return rpc::FromGrpc(grpc_status_);
}

}  // namespace baton::worker
