#include "kvtransfer/transports/nccl/pair_reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "common/test_partition.h"
#include "kvtransfer/transports/nccl/communicator.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;
namespace {

constexpr int64_t kFirstBackoffNs = 50 * kNsPerMs;
// 50 ms doubled so often is 1.6 s.
constexpr int kMostDoublings = 5;

}  // namespace

struct PairReader::Read {
  PendingRead asked;
  // What is asked for next: this range, from here.
  size_t next_range = 0;
  uint64_t next_byte = 0;
  size_t pieces = 0;
  // OK until a piece was refused.
  absl::Status failure;

  bool is_asked() const { return next_range == asked.ranges.size(); }
  bool is_over() const { return pieces == 0 && (is_asked() || !failure.ok()); }
};

struct PairReader::Link {
  // A piece that was asked for and has not come.
  struct Piece {
    uint64_t id = 0;
    Read* read = nullptr;
    std::vector<MovedBytes> parts;
    // Zero until it is granted; then it has come when the communicator has done so many batches.
    uint64_t batch = 0;
  };

  Link(const NcclApi& api, MemoryAccess& memory, const std::function<void()>& wake) : communicator(api, memory, wake) {}

  bool is_open() const { return stream != nullptr; }
  // The reads of a lost pair end with it.
  bool is_lost() const { return !failure.ok(); }
  // gRPC and NCCL are done with it.
  bool has_ended() const {
    return communicator.state() == Communicator::State::kClosed && (!is_open() || inbox->has_ended());
  }

  PeerId peer = 0;
  std::string target;
  Id128 nonce;
  bool is_disconnected = false;
  absl::Status failure;
  // It outlives the stream: a thread of gRPC that dropped the last reference to a channel would wait for its own end.
  std::unique_ptr<pb::KvPairService::Stub> stub;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::shared_ptr<Stream> stream;
  Communicator communicator;
  // Reads in the order of their turns.
  std::list<Read> reads;
  // In the order in which they were asked for, which is that of the answers and that of their coming.
  std::deque<Piece> pieces;
  size_t answered = 0;
  uint64_t next_piece = 1;
  TimeNs last_progress = 0;
};

PairReader::PairReader(const NcclApi& api, MemoryAccess& memory, std::function<void()> wake, int64_t stall_timeout_ms,
                       rpc::Credentials* credentials)
    : api_(api),
      memory_(memory),
      wake_(std::move(wake)),
      stall_timeout_ns_(stall_timeout_ms * kNsPerMs),
      credentials_(credentials) {}

PairReader::~PairReader() {
  for (const auto& link : links_) {
    if (!link->is_lost()) Lose(*link, absl::CancelledError("the reader ends"));
  }
  for (const auto& link : links_) {
    if (link->is_open()) link->inbox->AwaitEnd();
  }
}

PairReader::Link* PairReader::Find(PeerId peer) const {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [peer](const auto& link) { return link->peer == peer && !link->is_disconnected; });
  return found == links_.end() ? nullptr : found->get();
}

void PairReader::Connect(PeerId peer, const std::string& target, const Id128& nonce) {
  auto link = std::make_unique<Link>(api_, memory_, wake_);
  link->peer = peer;
  link->target = target;
  link->nonce = nonce;
  links_.push_back(std::move(link));
}

absl::Status PairReader::CheckAlive(PeerId peer) const {
  const Link* const link = Find(peer);
  if (link == nullptr || !link->is_lost()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the peer is lost: ", link->failure.message()));
}

void PairReader::Add(PendingRead read) {
  Link* const link = Find(read.peer);
  BATON_CHECK(link != nullptr);
  if (link->reads.empty()) link->last_progress = MonotonicClock().Now();
  link->reads.push_back({.asked = std::move(read)});
  wake_();
}

size_t PairReader::in_flight(PeerId peer) const {
  const Link* const link = Find(peer);
  return link == nullptr ? 0 : link->reads.size();
}

void PairReader::Open(Link& link) {
  link.stub = pb::KvPairService::NewStub(grpc::CreateCustomChannel(
      TestTarget(link.target), rpc::ChannelCredentialsOf(credentials_, rpc::Peer::kKvOwner), rpc::ChannelArguments()));
  link.stream = Stream::Create(
      [&link](grpc::ClientContext* context, auto* reactor) { link.stub->async()->Pair(context, reactor); },
      {.on_message =
           [this, inbox = link.inbox](const pb::KvPairReply& reply) {
             if (!inbox->Put(reply)) inbox->Break(absl::UnavailableError("the owner answers more than it was asked"));
             wake_();
           },
       .on_done =
           [this, inbox = link.inbox](const grpc::Status& status) {
             inbox->End(absl::UnavailableError(absl::StrCat("the owner ended the pair: ", status.error_message())),
                        wake_);
           }});
  pb::KvPairRequest request;
  request.mutable_hello()->set_nonce(rpc::ToBytes(link.nonce));
  request.mutable_hello()->set_nccl_version(api_.version);
  link.stream->Push(std::move(request));
}

void PairReader::Poll(std::vector<ReadCompletion>& completions) {
  const TimeNs now = MonotonicClock().Now();
  for (auto it = links_.begin(); it != links_.end();) {
    Link& link = **it;
    Advance(link, now);
    ReportDone(link, completions);
    it = link.is_disconnected && link.has_ended() ? links_.erase(it) : std::next(it);
  }
}

void PairReader::Advance(Link& link, TimeNs now) {
  link.communicator.Poll();
  if (link.is_lost()) return;
  if (!link.is_open()) {
    const auto backoff = backoffs_.find(link.target);
    const bool has_to_wait = backoff != backoffs_.end() && now < backoff->second.until;
    if (has_to_wait || std::all_of(link.reads.begin(), link.reads.end(), [](const Read& r) { return r.is_over(); })) {
      return;
    }
    link.last_progress = now;
    Open(link);
  }
  if (const absl::Status status = HandleNews(link, now); !status.ok()) {
    NoteFailure(link);
    Lose(link, status);
  }
}

absl::Status PairReader::HandleNews(Link& link, TimeNs now) {
  if (link.communicator.state() == Communicator::State::kFailed) return link.communicator.error();
  while (!link.pieces.empty() && link.pieces.front().batch > 0 &&
         link.pieces.front().batch <= link.communicator.done()) {
    --link.pieces.front().read->pieces;
    link.pieces.pop_front();
    --link.answered;
    link.last_progress = now;
    backoffs_.erase(link.target);
  }
  while (const std::optional<pb::KvPairReply> reply = link.inbox->Take()) {
    link.last_progress = now;
    BATON_RETURN_IF_ERROR(Handle(link, *reply));
  }
  if (const std::optional<absl::Status> why = link.inbox->broken()) return *why;
  AskForPieces(link, now);
  // What has just been granted is issued at once.
  link.communicator.Poll();
  if (!link.pieces.empty() && now - link.last_progress >= stall_timeout_ns_) {
    return absl::UnavailableError(absl::StrCat("nothing came for ", stall_timeout_ns_ / kNsPerMs, " ms"));
  }
  return absl::OkStatus();
}

absl::Status PairReader::Handle(Link& link, const pb::KvPairReply& reply) {
  const bool is_new = link.communicator.state() == Communicator::State::kNew;
  if (!is_new && reply.has_answer()) return HandleAnswer(link, reply.answer());
  nccl::UniqueId id;
  if (!is_new || reply.unique_id().size() != sizeof(id.bytes)) {
    return absl::UnavailableError("the owner sent what has no place here");
  }
  std::memcpy(id.bytes, reply.unique_id().data(), sizeof(id.bytes));
  link.communicator.Form(id, kReaderRank);
  return absl::OkStatus();
}

absl::Status PairReader::HandleAnswer(Link& link, const pb::KvPairAnswer& answer) {
  if (link.answered >= link.pieces.size() || link.pieces[link.answered].id != answer.piece()) {
    return absl::UnavailableError("the owner answered what it was not asked");
  }
  const auto piece = link.pieces.begin() + static_cast<std::ptrdiff_t>(link.answered);
  if (answer.granted()) {
    ++link.answered;
    piece->batch = link.communicator.Move(std::move(piece->parts));
    return absl::OkStatus();
  }
  --piece->read->pieces;
  if (piece->read->failure.ok()) {
    piece->read->failure = absl::UnavailableError("the bytes are not granted, or not any more");
  }
  link.pieces.erase(piece);
  return absl::OkStatus();
}

void PairReader::AskForPieces(Link& link, TimeNs now) {
  for (size_t passed = 0; passed < link.reads.size() && link.pieces.size() < kMaxPairPieces;) {
    Read& read = link.reads.front();
    if (read.is_asked() || !read.failure.ok()) {
      ++passed;
    } else {
      if (link.pieces.empty()) link.last_progress = now;
      AskForPiece(link, read);
      passed = 0;
    }
    link.reads.splice(link.reads.end(), link.reads, link.reads.begin());
  }
}

void PairReader::AskForPiece(Link& link, Read& read) {
  pb::KvPairRequest request;
  pb::KvPairPiece& asked = *request.mutable_piece();
  asked.set_piece(link.next_piece);
  asked.set_fetch(rpc::ToBytes(read.asked.fetch));
  Link::Piece piece{.id = link.next_piece++, .read = &read};
  for (uint64_t left = kPairPieceBytes; left > 0 && !read.is_asked() && piece.parts.size() < kPairPieceRanges;) {
    const CopyRange& range = read.asked.ranges[read.next_range];
    const uint64_t bytes = std::min(range.bytes - read.next_byte, left);
    asked.add_offsets(range.remote_offset + read.next_byte);
    asked.add_bytes(bytes);
    piece.parts.push_back({.address = read.asked.local + range.local_offset + read.next_byte, .bytes = bytes});
    left -= bytes;
    read.next_byte += bytes;
    if (read.next_byte < range.bytes) continue;
    ++read.next_range;
    read.next_byte = 0;
  }
  ++read.pieces;
  link.pieces.push_back(std::move(piece));
  // A stream that takes no message has ended, which its inbox tells.
  link.stream->Push(std::move(request));
}

void PairReader::ReportDone(Link& link, std::vector<ReadCompletion>& completions) {
  if (link.is_lost() && link.communicator.state() != Communicator::State::kClosed) return;
  for (auto read = link.reads.begin(); read != link.reads.end();) {
    if (!link.is_lost() && !read->is_over()) {
      ++read;
      continue;
    }
    completions.push_back({read->asked.read, link.is_lost() ? link.failure : read->failure});
    read = link.reads.erase(read);
  }
}

void PairReader::Lose(Link& link, const absl::Status& why) {
  link.failure = why;
  if (link.is_open()) link.stream->Cancel();
  link.communicator.Close();
}

void PairReader::NoteFailure(const Link& link) {
  if (backoffs_.size() >= kMaxPeers && !backoffs_.contains(link.target)) return;
  Backoff& backoff = backoffs_[link.target];
  backoff.until = MonotonicClock().Now() + (kFirstBackoffNs << std::min(backoff.failures, kMostDoublings));
  ++backoff.failures;
}

void PairReader::Disconnect(PeerId peer) {
  Link* const link = Find(peer);
  if (link == nullptr) return;
  link->is_disconnected = true;
  if (!link->is_lost()) Lose(*link, absl::CancelledError("the peer was disconnected"));
  wake_();
}

TimeNs PairReader::NextTimer() const {
  const TimeNs now = MonotonicClock().Now();
  TimeNs next = kNever;
  for (const auto& link : links_) {
    if (link->is_lost()) continue;
    if (!link->pieces.empty()) next = std::min(next, link->last_progress + stall_timeout_ns_);
    if (const int64_t interval_ns = link->communicator.poll_interval_ns(); interval_ns != kNever) {
      next = std::min(next, now + interval_ns);
    }
    if (link->is_open() || link->reads.empty()) continue;
    const auto backoff = backoffs_.find(link->target);
    if (backoff != backoffs_.end()) next = std::min(next, backoff->second.until);
  }
  return next;
}

}  // namespace baton::kvtransfer
