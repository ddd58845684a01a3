#include "kvtransfer/transports/nccl/pair_server.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "kvtransfer/transports/nccl/communicator.h"
#include "kvtransfer/transports/transfer_server.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;
namespace {

constexpr int64_t kEndPairsMs = 0;
// One for each peer of a process: a reader has one pair with each owner, and a few while it gives old ones up.
constexpr int kMaxPairsPerConnection = 64;

absl::StatusOr<std::vector<RegionRange>> RangesOf(const pb::KvPairPiece& piece) {
  if (piece.offsets_size() != piece.bytes_size() || piece.offsets_size() > static_cast<int>(kPairPieceRanges)) {
    return absl::InvalidArgumentError("the piece has no valid ranges");
  }
  std::vector<RegionRange> ranges;
  uint64_t total = 0;
  for (int i = 0; i < piece.offsets_size(); ++i) {
    ranges.push_back({.offset = piece.offsets(i), .bytes = piece.bytes(i)});
    if (piece.bytes(i) == 0 || piece.bytes(i) > kPairPieceBytes) {
      return absl::InvalidArgumentError("the piece has a range of no valid size");
    }
    total += piece.bytes(i);
  }
  if (total > kPairPieceBytes) return absl::InvalidArgumentError("the piece is too long");
  return ranges;
}

grpc::Status TooMany() { return {grpc::StatusCode::UNAVAILABLE, "the owner has as many pairs as it may, or ends"}; }

}  // namespace

struct PairServer::Link {
  // A piece on its way out.
  struct Sending {
    Id128 fetch;
    std::vector<RegionRange> ranges;
    // It has gone when the communicator has done so many batches.
    uint64_t batch = 0;
  };

  Link(Arrival arrival, const NcclApi& api, MemoryAccess& memory, const std::function<void()>& wake, TimeNs now)
      : stream(std::move(arrival.stream)),
        inbox(std::move(arrival.inbox)),
        communicator(api, memory, wake),
        last_progress(now) {}

  // Whether the pair waits for its reader.
  bool waits() const { return communicator.state() != Communicator::State::kReady || !sending.empty(); }

  std::shared_ptr<Stream> stream;
  std::shared_ptr<Inbox> inbox;
  Communicator communicator;
  std::deque<Sending> sending;
  TimeNs last_progress;
};

PairServer::PairServer(const NcclApi& api, MemoryAccess& memory, ReadGrants& grants, std::function<void()> wake,
                       int64_t stall_timeout_ms)
    : api_(api),
      memory_(memory),
      grants_(grants),
      wake_(std::move(wake)),
      stall_timeout_ns_(stall_timeout_ms * kNsPerMs) {}

absl::StatusOr<std::unique_ptr<PairServer>> PairServer::Create(const TransportOptions& options, const NcclApi& api,
                                                               MemoryAccess& memory, ReadGrants& grants,
                                                               std::function<void()> wake) {
  auto server = absl::WrapUnique(new PairServer(api, memory, grants, std::move(wake), options.stall_timeout_ms));
  BATON_ASSIGN_OR_RETURN(server->server_,
                         BuildTransferServer(options, {.streams_per_connection = kMaxPairsPerConnection}, *server));
  server->target_ = TargetFor(options, server->server_);
  return server;
}

PairServer::~PairServer() {
  if (server_.server == nullptr) return;
  const absl::Status why = absl::UnavailableError("the owner ends");
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    for (const Arrival& arrival : arrivals_) arrival.stream->Finish(rpc::ToGrpc(why));
  }
  for (Link& link : links_) End(link, why);
  rpc::StopGrpcServer(*server_.server, kEndPairsMs);
  {
    absl::MutexLock lock(&mutex_);
    const auto none_left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return open_streams_ == 0; };
    mutex_.Await(absl::Condition(&none_left));
  }
  // Each waits for its communicator.
  links_.clear();
}

void PairServer::Expose(const Id128& nonce, uint8_t* base, const RegionLayout& layout) {
  nonce_ = nonce;
  base_ = base;
  layout_ = layout;
}

grpc::ServerBidiReactor<pb::KvPairRequest, pb::KvPairReply>* PairServer::Pair(
    grpc::CallbackServerContext* /*context*/) {
  const Arrival arrival = {.stream = Stream::Create(), .inbox = std::make_shared<Inbox>()};
  Stream* const stream = arrival.stream.get();
  bool is_full = false;
  {
    absl::MutexLock lock(&mutex_);
    is_full = ending_ || open_streams_ >= kMaxPeers;
    ++open_streams_;
    if (!is_full) arrivals_.push_back(arrival);
  }
  // What comes before Poll has seen the stream waits in its inbox.
  stream->Start({.on_message =
                     [this, inbox = arrival.inbox](const pb::KvPairRequest& request) {
                       if (!inbox->Put(request))
                         inbox->Break(absl::InvalidArgumentError("more pieces than a pair has"));
                       wake_();
                     },
                 .on_closed =
                     [this, inbox = arrival.inbox] {
                       inbox->Break(absl::CancelledError("the reader closed the pair"));
                       absl::MutexLock lock(&mutex_);
                       wake_();
                       --open_streams_;
                     }});
  if (is_full) stream->Finish(TooMany());
  return stream;
}

void PairServer::TakeArrivals() {
  std::vector<Arrival> arrivals;
  {
    absl::MutexLock lock(&mutex_);
    arrivals.swap(arrivals_);
  }
  const TimeNs now = MonotonicClock().Now();
  for (Arrival& arrival : arrivals) {
    if (links_.size() < kMaxPeers) {
      links_.emplace_back(std::move(arrival), api_, memory_, wake_, now);
    } else {
      arrival.stream->Finish(TooMany());
    }
  }
}

void PairServer::Poll() {
  TakeArrivals();
  const TimeNs now = MonotonicClock().Now();
  for (auto link = links_.begin(); link != links_.end();) {
    Advance(*link, now);
    if (link->communicator.state() != Communicator::State::kClosed) {
      ++link;
      continue;
    }
    for (const Link::Sending& sent : link->sending) EndSends(sent.fetch, sent.ranges, sent.ranges.size());
    link = links_.erase(link);
  }
}

void PairServer::Advance(Link& link, TimeNs now) {
  const bool was_forming = link.communicator.state() == Communicator::State::kForming;
  link.communicator.Poll();
  if (link.communicator.state() >= Communicator::State::kClosing) return;
  if (was_forming && link.communicator.state() == Communicator::State::kReady) link.last_progress = now;
  while (!link.sending.empty() && link.sending.front().batch <= link.communicator.done()) {
    const Link::Sending& sent = link.sending.front();
    EndSends(sent.fetch, sent.ranges, sent.ranges.size());
    link.sending.pop_front();
    link.last_progress = now;
  }
  if (link.communicator.state() == Communicator::State::kFailed) return End(link, link.communicator.error());
  if (const std::optional<absl::Status> end = link.inbox->broken()) return End(link, *end);
  // The reader may have got a piece of which the own stream does not tell yet.
  while (link.sending.size() < kMaxPairPieces) {
    const std::optional<pb::KvPairRequest> request = link.inbox->Take();
    if (!request.has_value()) break;
    if (!link.waits()) link.last_progress = now;
    if (const absl::Status status = Handle(link, *request); !status.ok()) return End(link, status);
  }
  // What has just been asked for is issued at once.
  link.communicator.Poll();
  if (link.waits() && now - link.last_progress >= stall_timeout_ns_) {
    End(link, absl::UnavailableError(absl::StrCat("the reader was silent for ", stall_timeout_ns_ / kNsPerMs, " ms")));
  }
}

absl::Status PairServer::Handle(Link& link, const pb::KvPairRequest& request) {
  const bool is_new = link.communicator.state() == Communicator::State::kNew;
  if (is_new && request.has_hello()) return Greet(link, request.hello());
  if (!is_new && request.has_piece()) return Serve(link, request.piece());
  return absl::InvalidArgumentError("the message has no place here");
}

absl::Status PairServer::Greet(Link& link, const pb::KvPairHello& hello) {
  BATON_ASSIGN_OR_RETURN(const Id128 nonce, rpc::FromBytes(hello.nonce()));
  if (nonce != nonce_) return absl::UnavailableError("another region is meant");
  if (hello.nccl_version() != api_.version) {
    return absl::FailedPreconditionError(absl::StrCat("the owner has NCCL ", NcclVersionName(api_.version),
                                                      " and the reader another (", hello.nccl_version(),
                                                      "): all workers need the same"));
  }
  nccl::UniqueId id;
  BATON_RETURN_IF_ERROR(NcclStatus(api_, api_.get_unique_id(&id), "drawing an id"));
  pb::KvPairReply reply;
  reply.set_unique_id(id.bytes, sizeof(id.bytes));
  link.communicator.Form(id, kOwnerRank);
  link.stream->Push(std::move(reply));
  return absl::OkStatus();
}

absl::Status PairServer::Serve(Link& link, const pb::KvPairPiece& piece) {
  BATON_ASSIGN_OR_RETURN(const Id128 fetch, rpc::FromBytes(piece.fetch()));
  BATON_ASSIGN_OR_RETURN(std::vector<RegionRange> ranges, RangesOf(piece));
  pb::KvPairReply reply;
  reply.mutable_answer()->set_piece(piece.piece());
  const bool granted = BeginSends(fetch, ranges);
  reply.mutable_answer()->set_granted(granted);
  link.stream->Push(std::move(reply));
  if (!granted) return absl::OkStatus();
  std::vector<MovedBytes> batch;
  batch.reserve(ranges.size());
  for (const RegionRange& range : ranges) batch.push_back({.address = base_ + range.offset, .bytes = range.bytes});
  const uint64_t number = link.communicator.Move(std::move(batch));
  link.sending.push_back({.fetch = fetch, .ranges = std::move(ranges), .batch = number});
  return absl::OkStatus();
}

bool PairServer::BeginSends(const Id128& fetch, const std::vector<RegionRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (fetch.is_zero() && layout_.IsProbe(ranges[i])) continue;
    if (grants_.BeginSend(fetch, ranges[i])) continue;
    EndSends(fetch, ranges, i);
    grants_.CountRefusal();
    return false;
  }
  return true;
}

void PairServer::EndSends(const Id128& fetch, const std::vector<RegionRange>& ranges, size_t count) {
  if (fetch.is_zero()) return;
  for (size_t i = 0; i < count; ++i) grants_.EndSend(fetch);
}

void PairServer::End(Link& link, const absl::Status& why) {
  link.stream->Finish(rpc::ToGrpc(why));
  link.communicator.Close();
}

TimeNs PairServer::NextTimer() const {
  const TimeNs now = MonotonicClock().Now();
  TimeNs next = kNever;
  for (const Link& link : links_) {
    if (link.communicator.state() >= Communicator::State::kClosing) continue;
    if (link.waits()) next = std::min(next, link.last_progress + stall_timeout_ns_);
    if (const int64_t interval_ns = link.communicator.poll_interval_ns(); interval_ns != kNever) {
      next = std::min(next, now + interval_ns);
    }
  }
  return next;
}

}  // namespace baton::kvtransfer
