#include "kvtransfer/transports/grpc/block_reader.h"

#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/wire.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;
namespace {

// Pieces of a call that wait for Poll. The next one comes while the last one is copied.
constexpr size_t kMaxWaitingPieces = 2;

pb::KvReadRequest RequestOf(const BlockReader::PendingRead& read) {
  pb::KvReadRequest request;
  request.set_nonce(rpc::ToBytes(read.nonce));
  request.set_fetch(rpc::ToBytes(read.fetch));
  for (const CopyRange& range : read.ranges) {
    request.add_offsets(range.remote_offset);
    request.add_bytes(range.bytes);
  }
  return request;
}

}  // namespace

// All but the reactions on the thread that polls. It may be destroyed once End() is set.
class BlockReader::Call final : public grpc::ClientReadReactor<pb::KvReadPiece> {
 public:
  Call(pb::KvReadService::Stub& stub, pb::KvReadRequest request, const std::function<void()>& wake)
      : request_(std::move(request)), wake_(wake) {
    stub.async()->Read(&context_, &request_, this);
    // Until no piece follows, so that Take may go on after a pause.
    AddHold();
    StartRead(&piece_);
    StartCall();
  }

  std::optional<std::string> Take() {
    bool goes_on = false;
    std::optional<std::string> piece;
    {
      absl::MutexLock lock(&inbox_->mutex);
      if (inbox_->pieces.empty()) return std::nullopt;
      piece = std::move(inbox_->pieces.front());
      inbox_->pieces.pop_front();
      goes_on = inbox_->paused && !inbox_->closed;
      inbox_->paused = false;
    }
    if (goes_on) StartRead(&piece_);
    return piece;
  }
  // A piece has come, or the end.
  bool HasNews() const {
    absl::MutexLock lock(&inbox_->mutex);
    return !inbox_->pieces.empty() || inbox_->end.has_value();
  }
  std::optional<grpc::Status> End() const {
    absl::MutexLock lock(&inbox_->mutex);
    return inbox_->end;
  }
  void AwaitEnd() const {
    absl::MutexLock lock(&inbox_->mutex);
    const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox_->mutex) { return inbox_->end.has_value(); };
    inbox_->mutex.Await(absl::Condition(&has_ended));
  }
  // Nothing is taken any more.
  void Cancel() {
    context_.TryCancel();
    bool was_paused = false;
    {
      absl::MutexLock lock(&inbox_->mutex);
      inbox_->pieces.clear();
      was_paused = inbox_->paused && !inbox_->closed;
      inbox_->closed = inbox_->closed || was_paused;
    }
    if (was_paused) RemoveHold();
  }

  void OnReadDone(bool ok) override {
    bool goes_on = false;
    {
      absl::MutexLock lock(&inbox_->mutex);
      if (ok) {
        inbox_->pieces.push_back(std::move(*piece_.mutable_data()));
        goes_on = inbox_->pieces.size() < kMaxWaitingPieces;
        inbox_->paused = !goes_on;
      } else {
        inbox_->closed = true;
      }
    }
    wake_();
    if (goes_on) StartRead(&piece_);
    if (!ok) RemoveHold();
  }
  void OnDone(const grpc::Status& status) override {
    // Whoever sees the end may destroy the call and the reader.
    const std::shared_ptr<Inbox> inbox = inbox_;
    absl::MutexLock lock(&inbox->mutex);
    inbox->end = status;
    wake_();
  }

 private:
  // What gRPC's threads leave for Poll. It outlives the call, whose last reaction still tells that it is over.
  struct Inbox {
    absl::Mutex mutex;
    std::deque<std::string> pieces ABSL_GUARDED_BY(mutex);
    // No read of the call is in flight, because enough pieces wait.
    bool paused ABSL_GUARDED_BY(mutex) = false;
    // No piece follows.
    bool closed ABSL_GUARDED_BY(mutex) = false;
    std::optional<grpc::Status> end ABSL_GUARDED_BY(mutex);
  };

  const pb::KvReadRequest request_;
  // The reader's.
  const std::function<void()>& wake_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  grpc::ClientContext context_;
  pb::KvReadPiece piece_;
};

struct BlockReader::Read {
  PendingRead asked;
  std::shared_ptr<Link> link;
  std::unique_ptr<Call> call;
  // Where the next byte belongs.
  size_t next_range = 0;
  uint64_t next_byte = 0;
  TimeNs last_progress = 0;
};

BlockReader::BlockReader(RegionCopies& copies, std::function<void()> wake, int64_t stall_timeout_ms,
                         rpc::Credentials* credentials)
    : copies_(copies),
      wake_(std::move(wake)),
      stall_timeout_ns_(stall_timeout_ms * kNsPerMs),
      credentials_(credentials) {}

BlockReader::~BlockReader() {
  for (Read& read : reads_) Close(read);
  for (const auto& [link, call] : closing_) call->AwaitEnd();
}

void BlockReader::Connect(PeerId peer, const std::string& target) {
  auto link = std::make_shared<Link>();
  link->peer = peer;
  link->stub = pb::KvReadService::NewStub(grpc::CreateCustomChannel(
      target, rpc::ChannelCredentialsOf(credentials_, rpc::Peer::kKvOwner), rpc::ChannelArguments()));
  links_.push_back(std::move(link));
}

void BlockReader::Add(PendingRead read) {
  const auto link =
      *std::find_if(links_.begin(), links_.end(), [&read](const auto& other) { return other->peer == read.peer; });
  auto call = std::make_unique<Call>(*link->stub, RequestOf(read), wake_);
  reads_.push_back(
      {.asked = std::move(read), .link = link, .call = std::move(call), .last_progress = MonotonicClock().Now()});
}

size_t BlockReader::in_flight(PeerId peer) const {
  return static_cast<size_t>(
      std::count_if(reads_.begin(), reads_.end(), [peer](const Read& read) { return read.asked.peer == peer; }));
}

TimeNs BlockReader::NextTimer() const {
  TimeNs next = kNever;
  for (const Read& read : reads_) next = std::min(next, read.last_progress + stall_timeout_ns_);
  return next;
}

void BlockReader::Poll(std::vector<ReadCompletion>& completions) {
  for (const ReadId read : std::exchange(cancelled_, {})) {
    completions.push_back({read, absl::CancelledError("the peer was disconnected")});
  }
  has_more_ = false;
  const TimeNs now = MonotonicClock().Now();
  int advanced = 0;
  for (size_t left = reads_.size(); left > 0; --left) {
    Read& read = reads_.front();
    const bool has_stalled = now - read.last_progress >= stall_timeout_ns_;
    if (read.call->HasNews() || has_stalled) {
      if (advanced++ == kPiecesPerPoll) {
        has_more_ = true;
        break;
      }
      if (const std::optional<absl::Status> status = Advance(read, now)) {
        completions.push_back({read.asked.read, *status});
        Close(read);
        reads_.pop_front();
        continue;
      }
      has_more_ = has_more_ || read.call->HasNews();
    }
    reads_.splice(reads_.end(), reads_, reads_.begin());
  }
  closing_.remove_if([](const auto& entry) { return entry.second->End().has_value(); });
}

std::optional<absl::Status> BlockReader::Advance(Read& read, TimeNs now) {
  if (const std::optional<std::string> piece = read.call->Take()) {
    read.last_progress = now;
    absl::Status written = Write(*piece, read);
    return written.ok() ? std::nullopt : std::optional<absl::Status>(std::move(written));
  }
  const std::optional<grpc::Status> end = read.call->End();
  if (!end.has_value()) {
    return absl::UnavailableError(absl::StrCat("nothing came for ", stall_timeout_ns_ / kNsPerMs, " ms"));
  }
  if (!end->ok()) return absl::UnavailableError(absl::StrCat("the owner ended the read: ", end->error_message()));
  if (read.next_range == read.asked.ranges.size()) return absl::OkStatus();
  return absl::UnavailableError("the owner sent less than it was asked for");
}

absl::Status BlockReader::Write(const std::string& piece, Read& read) {
  size_t taken = 0;
  while (taken < piece.size() && read.next_range < read.asked.ranges.size()) {
    const CopyRange& range = read.asked.ranges[read.next_range];
    const size_t bytes = std::min<size_t>(range.bytes - read.next_byte, piece.size() - taken);
    const absl::Status copied = copies_.In(read.asked.local + range.local_offset + read.next_byte,
                                           {reinterpret_cast<const uint8_t*>(piece.data()) + taken, bytes});
    if (!copied.ok()) return absl::UnavailableError(copied.message());
    taken += bytes;
    read.next_byte += bytes;
    if (read.next_byte < range.bytes) continue;
    ++read.next_range;
    read.next_byte = 0;
  }
  if (taken == piece.size()) return absl::OkStatus();
  return absl::UnavailableError("the owner sent more than it was asked for");
}

void BlockReader::Close(Read& read) {
  read.call->Cancel();
  closing_.emplace_back(std::move(read.link), std::move(read.call));
}

void BlockReader::Disconnect(PeerId peer) {
  for (auto it = reads_.begin(); it != reads_.end();) {
    if (it->asked.peer != peer) {
      ++it;
      continue;
    }
    cancelled_.push_back(it->asked.read);
    Close(*it);
    it = reads_.erase(it);
  }
  std::erase_if(links_, [peer](const auto& link) { return link->peer == peer; });
  if (!cancelled_.empty()) wake_();
}

}  // namespace baton::kvtransfer
