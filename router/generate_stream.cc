#include "router/generate_stream.h"

#include <grpc/grpc.h>

#include <iterator>
#include <utility>
#include <variant>

#include "common/limits.h"
#include "router/generation_wire.h"

namespace baton::router {
namespace {

// The memory that a delta takes.
size_t BytesOf(const GenerationDelta& delta) {
  size_t bytes = delta.text.size() + delta.tokens.size() * sizeof(OutputToken);
  for (const OutputToken& token : delta.tokens) bytes += token.top.size() * sizeof(TopLogprob);
  return bytes;
}

bool IsEmpty(const GenerationDelta& delta) { return delta.tokens.empty() && delta.text.empty(); }

void Append(GenerationDelta more, GenerationDelta& delta) {
  if (IsEmpty(delta)) {
    delta = std::move(more);
    return;
  }
  delta.text += more.text;
  delta.has_logprobs |= more.has_logprobs;
  std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(delta.tokens));
}

}  // namespace

std::shared_ptr<GenerateStream> GenerateStream::Create(grpc::CallbackServerContext& context, UnreadOutput& unread,
                                                       OnCancelCallback on_cancel) {
  std::shared_ptr<GenerateStream> stream(new GenerateStream(context, unread, std::move(on_cancel)));
  stream->self_ = stream;
  return stream;
}

GenerateStream::GenerateStream(grpc::CallbackServerContext& context, UnreadOutput& unread, OnCancelCallback on_cancel)
    : context_(context), unread_(unread), on_cancel_(std::move(on_cancel)) {
  unread_.Add(*this);
}

bool GenerateStream::Write(GenerationEvent event) {
  return std::visit([this](auto& e) { return Take(std::move(e)); }, event);
}

bool GenerateStream::Take(GenerationDelta delta) {
  {
    absl::MutexLock lock(&mutex_);
    if (cut_) return true;
    const size_t bytes = BytesOf(delta);
    const bool fits = pending_.tokens.size() + delta.tokens.size() <= kMaxUnreadOutputTokens &&
                      pending_bytes_ + bytes <= kMaxUnreadOutputBytes;
    if (!fits) return false;
    pending_bytes_ += bytes;
    Append(std::move(delta), pending_);
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
  if (!writing_ && !IsEmpty(pending_)) {
    in_flight_ = Serialize(ToProto(pending_));
    pending_ = {};
    pending_bytes_ = 0;
    writing_ = true;
    StartWrite(&in_flight_);
  } else if (!writing_ && final_status_.has_value() && !std::exchange(ending_, true)) {
    if (last_message_.has_value() && !cut_) {
      StartWriteAndFinish(&*last_message_, {}, *final_status_);
    } else {
      Finish(*final_status_);
    }
  }
  CountHeld();
}

void GenerateStream::CountHeld() {
  const size_t held = pending_bytes_ + (writing_ ? in_flight_.Length() : 0);
  unread_.Count(*this, static_cast<int64_t>(held) - static_cast<int64_t>(held_bytes_));
  held_bytes_ = held;
}

void GenerateStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  in_flight_.Clear();
  if (!ok) {
    cut_ = true;
    pending_ = {};
    pending_bytes_ = 0;
  }
  Advance();
}

void GenerateStream::OnCancel() {
  cancelled_.store(true);
  on_cancel_(*this);
}

void GenerateStream::OnDone() {
  unread_.Remove(*this);
  self_.reset();
}

// The context lives until OnDone has returned, which waits in Remove while this runs.
void GenerateStream::Break() {
  grpc_call_cancel_with_status(context_.c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                               "the client does not read its stream: it was cut", nullptr);
}

}  // namespace baton::router
