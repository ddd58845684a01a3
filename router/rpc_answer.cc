#include "router/rpc_answer.h"

#include <utility>
#include <variant>

#include "router/refusal_reason.h"

namespace baton::router {

void RpcAnswer::SetOnCancel(OnCancelCallback on_cancel) {
  const absl::MutexLock lock(&mutex_);
  on_cancel_ = std::move(on_cancel);
}

void RpcAnswer::SetForm(std::unique_ptr<AnswerForm> form) {
  const absl::MutexLock lock(&mutex_);
  form_ = std::move(form);
  if (form_->is_whole()) pending_ = PendingOutput(kWholeAnswerLimits);
}

bool RpcAnswer::Write(GenerationEvent event) {
  return std::visit([this](auto& e) { return Take(std::move(e)); }, event);
}

bool RpcAnswer::HasRoom(const GenerationDelta& delta) const {
  const absl::MutexLock lock(&mutex_);
  return dropped_ || pending_.Fits(delta);
}

bool RpcAnswer::Take(const GenerationAccepted& accepted) {
  {
    const absl::MutexLock lock(&mutex_);
    std::optional<grpc::ByteBuffer> first = form_->Begin(accepted);
    if (dropped_ || !first.has_value()) return true;
    first_message_ = std::move(first);
  }
  call_->OnPiece(*this);
  return true;
}

bool RpcAnswer::Take(GenerationDelta delta) {
  bool is_news = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (dropped_) return true;
    if (!pending_.Fits(delta)) return false;
    // The call knows already of what waits.
    is_news = pending_.empty() && !form_->is_whole();
    pending_.Append(std::move(delta));
    CountHeld();
  }
  if (is_news) call_->OnPiece(*this);
  unread_.Enforce();
  return true;
}

bool RpcAnswer::Take(GenerationFinished finished) {
  End(std::move(finished));
  return true;
}

bool RpcAnswer::Take(GenerationFailed failed) {
  End(std::move(failed.status));
  return true;
}

void RpcAnswer::End(Outcome outcome) {
  {
    const absl::MutexLock lock(&mutex_);
    if (outcome_.has_value()) return;
    outcome_ = std::move(outcome);
  }
  call_->OnPiece(*this);
  unread_.Ended(*this);
}

RpcAnswer::Piece RpcAnswer::Next() {
  const absl::MutexLock lock(&mutex_);
  in_flight_bytes_ = 0;
  Piece piece;
  if (first_message_.has_value()) {
    piece.message = std::exchange(first_message_, std::nullopt);
  } else if (!form_->is_whole() && !pending_.empty()) {
    // A byte buffer has no move: an assignment would copy it.
    grpc::ByteBuffer chunk = form_->Chunk(pending_.Take());
    piece.message.emplace().Swap(&chunk);
  } else if (outcome_.has_value() && !std::exchange(end_given_, true)) {
    AnswerEnd end = MakeEnd();
    piece.end = std::move(end.status);
    if (!dropped_) piece.message = std::move(end.message);
  }
  if (piece.message.has_value()) in_flight_bytes_ = piece.message->Length();
  CountHeld();
  return piece;
}

AnswerEnd RpcAnswer::MakeEnd() {
  GenerationDelta output = pending_.Take();
  const auto* const finished = std::get_if<GenerationFinished>(&*outcome_);
  return finished != nullptr ? form_->End(std::move(output), *finished) : form_->End(std::get<absl::Status>(*outcome_));
}

void RpcAnswer::OnWritten() {
  const absl::MutexLock lock(&mutex_);
  in_flight_bytes_ = 0;
  CountHeld();
}

void RpcAnswer::Drop() {
  const absl::MutexLock lock(&mutex_);
  dropped_ = true;
  first_message_.reset();
  pending_.Clear();
  CountHeld();
}

void RpcAnswer::Cancel() {
  OnCancelCallback on_cancel;
  {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    on_cancel = std::move(on_cancel_);
  }
  if (on_cancel) on_cancel();
}

void RpcAnswer::Leave() {
  unread_.Remove(*this);
  // What it holds may refer to the answer.
  if (const OnDoneCallback on_done = std::exchange(on_done_, nullptr)) on_done(Delivery());
}

void RpcAnswer::CountHeld() {
  const size_t held = pending_.bytes() + in_flight_bytes_;
  if (held == held_bytes_) return;
  unread_.Count(*this, static_cast<int64_t>(held) - static_cast<int64_t>(held_bytes_));
  held_bytes_ = held;
}

absl::Status RpcAnswer::Delivery() const {
  if (broken_) return SlowReader();
  const absl::MutexLock lock(&mutex_);
  if (cancelled_ || dropped_) return absl::CancelledError("the client was gone before it had the end");
  return absl::OkStatus();
}

void RpcAnswer::Break() {
  broken_ = true;
  call_->Cut();
}

}  // namespace baton::router
