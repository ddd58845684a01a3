#include "router/generate_stream.h"

#include <grpc/grpc.h>

#include <utility>
#include <variant>

#include "router/generation_wire.h"
#include "router/refusal_reason.h"

namespace baton::router {

void GenerateStream::OnAccepted(bool ok) {
  if (!ok) return self_.reset();
  unread_.Add(*this);
  on_call_(self_);
}

grpc::ByteBuffer GenerateStream::TakeMessage() {
  grpc::ByteBuffer bytes;
  bytes.Swap(&message_);
  return bytes;
}

void GenerateStream::SetOnCancel(OnCancelCallback on_cancel) {
  absl::MutexLock lock(&mutex_);
  on_cancel_ = std::move(on_cancel);
}

bool GenerateStream::Write(GenerationEvent event) {
  return std::visit([this](auto& e) { return Take(std::move(e)); }, event);
}

bool GenerateStream::HasRoom(const GenerationDelta& delta) const {
  absl::MutexLock lock(&mutex_);
  return cut_ || pending_.Fits(delta);
}

bool GenerateStream::Take(const GenerationAccepted& accepted) {
  if (!accepted.is_kept) return true;
  absl::MutexLock lock(&mutex_);
  if (cut_) return true;
  first_message_ = Serialize(ToProto(accepted));
  Advance();
  return true;
}

bool GenerateStream::Take(GenerationDelta delta) {
  {
    absl::MutexLock lock(&mutex_);
    if (cut_) return true;
    if (!pending_.Fits(delta)) return false;
    pending_.Append(std::move(delta));
    Advance();
  }
  unread_.Enforce();
  return true;
}

bool GenerateStream::Take(const GenerationFinished& finished) {
  End(grpc::Status::OK, Serialize(ToProto(finished)));
  return true;
}

bool GenerateStream::Take(const GenerationFailed& failed) {
  End(ToClientStatus(failed.status), std::nullopt);
  return true;
}

void GenerateStream::End(grpc::Status status, std::optional<grpc::ByteBuffer> last_message) {
  {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value()) return;
    final_status_ = std::move(status);
    last_message_ = std::move(last_message);
    Advance();
  }
  unread_.Ended(*this);
}

void GenerateStream::Advance() {
  if (!writing_ && first_message_.has_value()) {
    WriteMessage(*first_message_);
    first_message_.reset();
  } else if (!writing_ && !pending_.empty()) {
    WriteMessage(Serialize(pending_.Take()));
  } else if (!writing_ && final_status_.has_value() && !std::exchange(ending_, true)) {
    if (last_message_.has_value() && !cut_) {
      call_.WriteAndFinish(*last_message_, {}, *final_status_, &finish_done_);
    } else {
      call_.Finish(*final_status_, &finish_done_);
    }
  }
  CountHeld();
}

void GenerateStream::WriteMessage(const grpc::ByteBuffer& message) {
  in_flight_bytes_ = message.Length();
  writing_ = true;
  call_.Write(message, &write_done_);
}

void GenerateStream::CountHeld() {
  const size_t held = pending_.bytes() + in_flight_bytes_;
  unread_.Count(*this, static_cast<int64_t>(held) - static_cast<int64_t>(held_bytes_));
  held_bytes_ = held;
}

void GenerateStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  in_flight_bytes_ = 0;
  if (!ok) {
    cut_ = true;
    first_message_.reset();
    pending_.Take();
  }
  Advance();
}

void GenerateStream::OnFinished(bool) {
  finished_ = true;
  LeaveIfDone();
}

void GenerateStream::OnCallDone(bool) {
  if (context_.IsCancelled()) {
    OnCancelCallback on_cancel;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      on_cancel = std::move(on_cancel_);
    }
    if (on_cancel) on_cancel();
  }
  call_done_ = true;
  LeaveIfDone();
}

void GenerateStream::LeaveIfDone() {
  if (!finished_ || !call_done_) return;
  unread_.Remove(*this);
  // What it holds may refer to the stream.
  if (const OnDoneCallback on_done = std::exchange(on_done_, nullptr)) on_done(Delivery());
  self_.reset();
}

absl::Status GenerateStream::Delivery() const {
  if (broken_) return SlowReader();
  if (cancelled_) return absl::CancelledError("the client was gone before it had the end");
  return absl::OkStatus();
}

// The context lives until Remove has returned, which waits while this runs.
void GenerateStream::Break() {
  broken_ = true;
  grpc_call_cancel_with_status(context_.c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                               "the client does not read its stream: it was cut", nullptr);
}

}  // namespace baton::router
