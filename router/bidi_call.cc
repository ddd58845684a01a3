#include "router/bidi_call.h"

#include <grpc/grpc.h>

#include <utility>

#include "common/limits.h"
#include "router/single_call.h"

namespace baton::router {

void BidiCall::OnAccepted(bool ok) {
  if (!ok) return self_.reset();
  parts_.open.Begin(*this);
  on_call_();
  Proceed();
}

void BidiCall::OnRead(bool ok) {
  {
    const absl::MutexLock lock(&mutex_);
    reading_ = false;
    read_all_ = !ok;
  }
  if (ok) TakeRequest();
  Proceed();
}

void BidiCall::TakeRequest() {
  const auto answer = std::make_shared<RpcAnswer>(self_, parts_.unread, parts_.make_form());
  grpc::ByteBuffer message;
  message.Swap(&message_);
  bool is_gone = false;
  {
    const absl::MutexLock lock(&mutex_);
    answers_.try_emplace(answer.get(), Entry{.answer = answer});
    parts_.open.SetBusy(*this);
    if (cut_) answer->Drop();
    is_gone = cancelled_;
  }
  parts_.on_request(*this, answer, message);
  // A request that came just before its client left.
  if (is_gone) answer->Cancel();
}

void BidiCall::OnPiece(RpcAnswer& answer) {
  {
    const absl::MutexLock lock(&mutex_);
    MakeReady(answer);
  }
  Proceed();
}

void BidiCall::MakeReady(RpcAnswer& answer) {
  const auto found = answers_.find(&answer);
  if (found == answers_.end() || std::exchange(found->second.is_ready, true)) return;
  ready_.push_back(found->second.answer);
}

void BidiCall::Proceed() {
  Answers left;
  bool reads = false;
  {
    const absl::MutexLock lock(&mutex_);
    WriteNext();
    left.swap(left_);
    if (!reading_ && !read_all_ && answers_.size() < kMaxRequestsPerStream) reading_ = reads = true;
    if (read_all_ && answers_.empty() && !std::exchange(finishing_, true)) {
      stream_.Finish(grpc::Status::OK, &finish_done_);
    }
  }
  for (const auto& answer : left) answer->Leave();
  if (reads) stream_.Read(&message_, &read_done_);
}

void BidiCall::WriteNext() {
  while (writing_ == nullptr && !ready_.empty()) {
    const std::shared_ptr<RpcAnswer> answer = std::move(ready_.front());
    ready_.pop_front();
    answers_.at(answer.get()).is_ready = false;
    const RpcAnswer::Piece piece = answer->Next();
    if (piece.message.has_value()) {
      writing_ = answer;
      writes_end_ = piece.end.has_value();
      stream_.Write(*piece.message, &write_done_);
    } else if (piece.end.has_value()) {
      Remove(answer);
    }
  }
}

void BidiCall::Remove(const std::shared_ptr<RpcAnswer>& answer) {
  answers_.erase(answer.get());
  left_.push_back(answer);
  if (answers_.empty()) parts_.open.SetIdle(*this);
}

void BidiCall::OnWriteDone(bool ok) {
  {
    const absl::MutexLock lock(&mutex_);
    const std::shared_ptr<RpcAnswer> written = std::exchange(writing_, nullptr);
    written->OnWritten();
    if (!ok && !std::exchange(cut_, true)) {
      for (const auto& answer : All()) answer->Drop();
    }
    if (writes_end_) {
      Remove(written);
    } else {
      // More may have come meanwhile. The others have their turn first.
      MakeReady(*written);
    }
  }
  Proceed();
}

BidiCall::Answers BidiCall::All() const {
  Answers all;
  all.reserve(answers_.size());
  for (const auto& [key, entry] : answers_) all.push_back(entry.answer);
  return all;
}

void BidiCall::OnFinished(bool) {
  finished_ = true;
  LeaveIfDone();
}

void BidiCall::OnCallDone(bool) {
  Answers all;
  {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = context_.IsCancelled();
    if (cancelled_) all = All();
  }
  for (const auto& answer : all) answer->Cancel();
  call_done_ = true;
  LeaveIfDone();
}

// The context lives until every answer has left, and an answer leaves only when nobody cuts it.
void BidiCall::Cut() { CutCall(context_); }

void BidiCall::LeaveIfDone() {
  if (!finished_ || !call_done_) return;
  OpenCalls& open = parts_.open;
  // From here on nobody ends it as an idle one.
  open.SetBusy(*this);
  // Whoever waits for the calls may then end what they refer to.
  self_.reset();
  open.End();
}

// The context lives until the call is no longer idle. A request that comes meanwhile is cancelled with the call.
void BidiCall::EndIdle() {
  grpc_call_cancel_with_status(context_.c_call(), GRPC_STATUS_UNAVAILABLE,
                               "the call has had no request for too long: send the next one on a new call", nullptr);
}

}  // namespace baton::router
