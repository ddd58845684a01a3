#include "router/single_call.h"

#include <grpc/grpc.h>

#include "common/check.h"
#include "router/generation_wire.h"

namespace baton::router {

void CutCall(grpc::ServerContext& context) {
  grpc_call_cancel_with_status(context.c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                               "the client does not read its stream: it was cut", nullptr);
}

void SingleCall::OnAccepted(bool ok) {
  if (!ok) return self_.reset();
  // The call may be over before `on_call_` has returned.
  const std::shared_ptr<SingleCall> self = self_;
  const auto answer = std::make_shared<RpcAnswer>(self, unread_, make_form_());
  bool is_gone = false;
  {
    const absl::MutexLock lock(&mutex_);
    answer_ = answer;
    is_gone = is_gone_;
  }
  if (is_gone) answer->Cancel();
  on_call_(*this, answer);
}

grpc::ByteBuffer SingleCall::TakeMessage() {
  grpc::ByteBuffer bytes;
  bytes.Swap(&message_);
  return bytes;
}

void SingleCall::OnPiece(RpcAnswer&) {
  const absl::MutexLock lock(&mutex_);
  Advance();
}

// The context lives until the answer has left, which waits while this runs.
void SingleCall::Cut() { CutCall(context_); }

void SingleCall::Advance() {
  // Once the call ends, the answer may have left.
  if (writing_ || finishing_) return;
  const RpcAnswer::Piece piece = answer_->Next();
  if (piece.end.has_value()) {
    finishing_ = true;
    AddRetryPushback(*piece.end, context_);
    StartFinish(piece.message, *piece.end, &finish_done_);
  } else if (piece.message.has_value()) {
    writing_ = true;
    StartWrite(*piece.message, &write_done_);
  }
}

void SingleCall::OnWriteDone(bool ok) {
  const absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) answer_->Drop();
  Advance();
}

void SingleCall::OnFinished(bool) {
  finished_ = true;
  LeaveIfDone();
}

void SingleCall::OnCallDone(bool) {
  std::shared_ptr<RpcAnswer> answer;
  if (context_.IsCancelled()) {
    const absl::MutexLock lock(&mutex_);
    is_gone_ = true;
    answer = answer_;
  }
  if (answer != nullptr) answer->Cancel();
  call_done_ = true;
  LeaveIfDone();
}

void SingleCall::LeaveIfDone() {
  if (!finished_ || !call_done_) return;
  std::shared_ptr<RpcAnswer> answer;
  {
    const absl::MutexLock lock(&mutex_);
    answer.swap(answer_);
  }
  answer->Leave();
  self_.reset();
}

void StreamingCall::StartWrite(const grpc::ByteBuffer& message, void* tag) { writer_.Write(message, tag); }

void StreamingCall::StartFinish(const std::optional<grpc::ByteBuffer>& last, const grpc::Status& status, void* tag) {
  if (last.has_value()) {
    writer_.WriteAndFinish(*last, {}, status, tag);
  } else {
    writer_.Finish(status, tag);
  }
}

void UnaryCall::StartWrite(const grpc::ByteBuffer&, void*) { BATON_CHECK(false) << "a whole answer has no chunks"; }

void UnaryCall::StartFinish(const std::optional<grpc::ByteBuffer>& last, const grpc::Status& status, void* tag) {
  if (last.has_value() && status.ok()) {
    writer_.Finish(*last, status, tag);
  } else {
    writer_.FinishWithError(status.ok() ? grpc::Status::CANCELLED : status, tag);
  }
}

}  // namespace baton::router
