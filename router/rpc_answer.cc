#include "router/rpc_answer.h"

#include <utility>
#include <variant>
#include <vector>

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

bool RpcAnswer::is_behind() const {
  const absl::MutexLock lock(&mutex_);
  return !form_->is_whole() && pending_.is_behind();
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
    grpc::ByteBuffer chunk = form_->Chunk(form_->splits_ends() ? pending_.TakeOutput() : pending_.Take());
    piece.message.emplace().Swap(&chunk);
  } else if (outcome_.has_value() && !end_given_) {
    piece = NextOfEnd();
  }
  if (piece.message.has_value()) in_flight_bytes_ = piece.message->Length();
  CountHeld();
  return piece;
}

AnswerEnd RpcAnswer::MakeEnd() {
  std::vector<GenerationDelta> outputs;
  const auto* const finished = std::get_if<GenerationFinished>(&*outcome_);
  if (finished != nullptr && form_->is_whole()) outputs = pending_.TakeAll(finished->choices.size());
  pending_.Clear();
  return finished != nullptr ? form_->End(outputs, *finished) : form_->End(std::get<absl::Status>(*outcome_));
}

RpcAnswer::Piece RpcAnswer::NextOfEnd() {
  if (!end_.has_value()) {
    end_ = MakeEnd();
    for (const grpc::ByteBuffer& message : end_->messages) end_bytes_ += message.Length();
  }
  Piece piece;
  const size_t count = end_->messages.size();
  if (!dropped_ && end_messages_given_ < count) {
    piece.message.emplace().Swap(&end_->messages[end_messages_given_++]);
    end_bytes_ -= piece.message->Length();
  }
  end_given_ = dropped_ || end_messages_given_ == count;
  if (end_given_) piece.end = std::move(end_->status);
  return piece;
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
  if (end_.has_value()) end_->messages.clear();
  end_bytes_ = 0;
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
  const size_t held = pending_.bytes() + in_flight_bytes_ + end_bytes_;
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
