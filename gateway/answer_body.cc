#include "gateway/answer_body.h"

#include <utility>
#include <vector>

namespace baton::gateway {

void AnswerBody::SetWriter(std::unique_ptr<AnswerWriter> writer, bool is_stream) {
  writer_ = std::move(writer);
  is_stream_ = is_stream;
  const absl::MutexLock lock(&mutex_);
  if (!is_stream) pending_ = router::PendingOutput(router::kWholeAnswerLimits);
}

void AnswerBody::OnExchangeDone(std::function<void()> on_over) {
  cancelled_ = true;
  {
    const absl::MutexLock lock(&mutex_);
    done_ = true;
    const size_t held_bytes = pending_.bytes();
    pending_.Clear();
    CountHeld(held_bytes);
    if (!end_.has_value()) on_over_ = std::exchange(on_over, nullptr);
  }
  // Nothing is counted any more.
  unread_.Remove(*this);
  if (on_over) on_over();
}

bool AnswerBody::Write(router::GenerationEvent event) {
  return std::visit([this](auto& e) { return Take(std::move(e)); }, event);
}

bool AnswerBody::HasRoom(const router::GenerationDelta& delta) const {
  const absl::MutexLock lock(&mutex_);
  return done_ || pending_.Fits(delta);
}

bool AnswerBody::is_behind() const {
  const absl::MutexLock lock(&mutex_);
  return is_stream_ && pending_.is_behind();
}

bool AnswerBody::Take(const router::GenerationAccepted& accepted) {
  writer_->OnAccepted(accepted);
  return true;
}

bool AnswerBody::Take(router::GenerationDelta delta) {
  {
    const absl::MutexLock lock(&mutex_);
    if (done_) return true;
    if (!pending_.Fits(delta)) return false;
    const bool was_empty = pending_.empty();
    const size_t held_bytes = pending_.bytes();
    pending_.Append(std::move(delta));
    CountHeld(held_bytes);
    if (is_stream_ && was_empty) Tell();
  }
  unread_.Enforce();
  return true;
}

bool AnswerBody::Take(router::GenerationFinished finished) {
  End(std::move(finished));
  return true;
}

bool AnswerBody::Take(router::GenerationFailed failed) {
  End(std::move(failed.status));
  return true;
}

void AnswerBody::End(AnswerEnd end) {
  std::function<void()> on_over;
  {
    const absl::MutexLock lock(&mutex_);
    end_ = std::move(end);
    on_over = std::exchange(on_over_, nullptr);
    const auto* const failed = std::get_if<absl::Status>(&*end_);
    if (!done_ && failed != nullptr && !begun_) {
      begun_ = true;
      HttpResponse response = make_error_(*failed);
      response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
      exchange_->Respond(std::move(response));
    } else if (!done_) {
      Tell();
    }
  }
  unread_.Ended(*this);
  if (on_over) on_over();
}

void AnswerBody::Tell() {
  if (std::exchange(begun_, true)) return exchange_->Wake();
  exchange_->Stream(
      {.content_type = is_stream_ ? "text/event-stream" : "application/json", .body = {}, .headers = headers_},
      shared_from_this());
}

void AnswerBody::CountHeld(size_t held_bytes) {
  unread_.Count(*this, static_cast<int64_t>(pending_.bytes()) - static_cast<int64_t>(held_bytes));
}

BodySource::Piece AnswerBody::Next() {
  std::vector<router::GenerationDelta> outputs;
  std::optional<AnswerEnd> end;
  const router::GenerationFinished* finished = nullptr;
  {
    const absl::MutexLock lock(&mutex_);
    if (done_) return {};
    if (end_.has_value()) end = std::move(*end_);
    if (end.has_value()) finished = std::get_if<router::GenerationFinished>(&*end);
    if (is_stream_ || end.has_value()) {
      const size_t held_bytes = pending_.bytes();
      if (finished != nullptr && !is_stream_) outputs = pending_.TakeAll(finished->choices.size());
      while (!pending_.empty()) outputs.push_back(pending_.Take());
      CountHeld(held_bytes);
    }
  }
  Piece piece = {.is_last = end.has_value()};
  if (finished != nullptr && !is_stream_) {
    piece.text = writer_->Whole(outputs, *finished);
    return piece;
  }
  for (const router::GenerationDelta& output : outputs) piece.text += writer_->Chunk(output);
  if (finished != nullptr) piece.text += writer_->End(*finished);
  if (piece.is_last && finished == nullptr) piece.text += writer_->End(std::get<absl::Status>(*end));
  return piece;
}

}  // namespace baton::gateway
