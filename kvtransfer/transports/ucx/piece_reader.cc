#include "kvtransfer/transports/ucx/piece_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "kvtransfer/transports/ucx/piece_wire.h"
#include "kvtransfer/transports/ucx/ucx_library.h"

namespace baton::kvtransfer {
namespace {

constexpr int kProgressCallsPerPoll = 16;
// How long a disconnected read that UCX is writing has to end by itself, which takes a millisecond where the owner
// answers. Then its connection is closed.
constexpr int64_t kGiveUpMs = 200;

TimeNs InGiveUpMs() { return After(MonotonicClock().Now(), kGiveUpMs); }

}  // namespace

// A connection to one owner, shared by all peers that Connect returned for it.
struct PieceReader::Link {
  ucp_ep_h endpoint = nullptr;
  Id128 nonce;
  int users = 0;
  int pieces_in_flight = 0;
  // Pieces that UCX is writing. Those of reads that were disconnected meanwhile; and when the connection is closed if
  // none of these has ended.
  int receives = 0;
  int given_up_receives = 0;
  TimeNs give_up_at = kNever;
  // When bytes last came, or when the first piece was asked for.
  TimeNs last_progress = 0;
  // Why reads fail; OK while the owner answers. Then the endpoint is closed, and null.
  absl::Status lost;

  bool waits() const { return pieces_in_flight > 0 || receives > 0; }
};

struct PieceReader::Read {
  PendingRead asked;
  // Null when it was disconnected: then `status` says so.
  Link* link = nullptr;
  size_t next_range = 0;
  // Bytes of that range that were asked for already.
  uint64_t posted_bytes = 0;
  int pieces_in_flight = 0;
  // Pieces that UCX is writing, also of those that are not expected any more.
  int receives = 0;
  absl::Status status;
  // Bytes were copied to a device's memory; and the mark behind the last of them, once nothing follows.
  bool has_copies = false;
  uint64_t mark = 0;

  bool all_posted() const { return next_range == asked.ranges.size() || !status.ok(); }
};

struct PieceReader::Piece {
  Read* read = nullptr;
  uint8_t* destination = nullptr;
  uint64_t bytes = 0;
  uint64_t received_bytes = 0;
  // UCX writes it, or has tried to.
  bool is_offered = false;
};

// A piece that UCX is writing. The read has not completed before it is over.
struct PieceReader::Receive {
  PieceReader* reader = nullptr;
  Link* link = nullptr;
  Read* read = nullptr;
  uint64_t piece = 0;
};

absl::StatusOr<std::unique_ptr<PieceReader>> PieceReader::Create(std::unique_ptr<UcxWorker> worker, Options options) {
  auto reader = absl::WrapUnique(new PieceReader(std::move(worker), std::move(options)));
  if (reader->options_.memory != nullptr) {
    BATON_ASSIGN_OR_RETURN(reader->stream_, reader->options_.memory->CreateStream());
  }
  BATON_RETURN_IF_ERROR(reader->worker_->HandleMessages(kFragmentMessage, &PieceReader::OnFragment, reader.get()));
  return reader;
}

PieceReader::PieceReader(std::unique_ptr<UcxWorker> worker, Options options)
    : worker_(std::move(worker)),
      options_(std::move(options)),
      stall_timeout_ns_(options_.stall_timeout_ms * kNsPerMs) {}

PieceReader::~PieceReader() {
  for (const auto& link : links_) {
    if (link->endpoint != nullptr) worker_->CloseEndpoint(link->endpoint, /*force=*/true);
  }
  // What UCX is writing ends with the worker, and tells its read.
  worker_.reset();
  if (stream_ != nullptr) options_.memory->DestroyStream(stream_);
}

absl::StatusOr<PieceReader::Link*> PieceReader::FindOrMakeLink(const Owner& owner) {
  if (owner.worker.empty()) {
    return absl::UnavailableError(absl::StrCat("the peer does not offer ", ToAbsl(options_.network)));
  }
  for (const auto& link : links_) {
    if (link->nonce == owner.nonce && link->lost.ok()) return link.get();
  }
  if (links_.size() >= kMaxPeers) {
    const auto idle = std::find_if(links_.begin(), links_.end(),
                                   [](const auto& link) { return link->users == 0 && link->receives == 0; });
    if (idle == links_.end()) {
      return absl::ResourceExhaustedError(absl::StrCat("too many ", ToAbsl(options_.network), " peers"));
    }
    worker_->CloseEndpoint((*idle)->endpoint, /*force=*/true);
    links_.erase(idle);
  }
  auto link = std::make_unique<Link>();
  link->nonce = owner.nonce;
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(owner.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = &PieceReader::OnLinkError, .arg = link.get()};
  const ucs_status_t status = Ucx().ucp_ep_create(worker_->handle(), &params, &link->endpoint);
  if (status != UCS_OK) {
    return absl::UnavailableError(UcxError(absl::StrCat("connecting by ", ToAbsl(options_.network)), status).message());
  }
  links_.push_back(std::move(link));
  return links_.back().get();
}

absl::Status PieceReader::Connect(PeerId peer, const Owner& owner) {
  BATON_ASSIGN_OR_RETURN(Link* const link, FindOrMakeLink(owner));
  ++link->users;
  peers_.emplace(peer, link);
  return absl::OkStatus();
}

absl::Status PieceReader::CheckAlive(PeerId peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? absl::NotFoundError("the transport peer is not connected") : it->second->lost;
}

void PieceReader::Add(PendingRead read) {
  const auto it = peers_.find(read.peer);
  BATON_CHECK(it != peers_.end());
  auto entry = std::make_unique<Read>();
  entry->asked = std::move(read);
  entry->link = it->second;
  reads_.push_back(std::move(entry));
}

// Called from within UCX: the endpoint is closed later, by TendLinks.
void PieceReader::OnLinkError(void* arg, ucp_ep_h endpoint, ucs_status_t status) {
  auto* link = static_cast<Link*>(arg);
  if (link->lost.ok()) link->lost = absl::UnavailableError(UcxError("the peer is lost", status).message());
}

ucs_status_t PieceReader::OnFragment(void* arg, const void* header, size_t header_bytes, void* data, size_t data_bytes,
                                     const ucp_am_recv_param_t* param) {
  auto* const reader = static_cast<PieceReader*>(arg);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    reader->HandleFragment(header, header_bytes, {static_cast<const uint8_t*>(data), data_bytes});
  } else if (reader->worker_->registers_memory()) {
    reader->TakeOffer(header, header_bytes, data, data_bytes);
  }
  return UCS_OK;
}

PieceReader::Piece* PieceReader::FindPiece(const void* header, size_t header_bytes, FragmentHeader& fragment) {
  if (header_bytes != sizeof(fragment)) return nullptr;
  std::memcpy(&fragment, header, sizeof(fragment));
  const auto it = pieces_.find(fragment.piece);
  if (it == pieces_.end()) return nullptr;
  Read& read = *it->second.read;
  read.link->last_progress = MonotonicClock().Now();
  if (fragment.kind == FragmentKind::kRefused) {
    FailRead(read, absl::UnavailableError("the peer does not serve these blocks any more"));
    return nullptr;
  }
  return &it->second;
}

void PieceReader::HandleFragment(const void* header, size_t header_bytes, absl::Span<const uint8_t> data) {
  FragmentHeader fragment;
  Piece* const piece = FindPiece(header, header_bytes, fragment);
  if (piece == nullptr) return;
  Read& read = *piece->read;
  // UCX alone writes registered memory, which may be a device's.
  if (worker_->registers_memory() || data.empty() || fragment.offset > piece->bytes ||
      data.size() > piece->bytes - fragment.offset) {
    FailRead(read, absl::UnavailableError("the peer sent bytes that were not asked for"));
    return;
  }
  Write(read, piece->destination + fragment.offset, data);
  if (!read.status.ok()) return;
  piece->received_bytes += data.size();
  if (piece->received_bytes >= piece->bytes) EndPiece(fragment.piece);
}

void PieceReader::TakeOffer(const void* header, size_t header_bytes, void* offer, size_t bytes) {
  FragmentHeader fragment;
  Piece* const piece = FindPiece(header, header_bytes, fragment);
  if (piece == nullptr || piece->is_offered) return;
  Read& read = *piece->read;
  if (fragment.offset != 0 || bytes != piece->bytes) {
    FailRead(read, absl::UnavailableError("the peer sent bytes that were not asked for"));
    return;
  }
  piece->is_offered = true;
  auto receive =
      std::make_unique<Receive>(Receive{.reader = this, .link = read.link, .read = &read, .piece = fragment.piece});
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.recv_am = &PieceReader::OnReceived;
  params.user_data = receive.get();
  worker_->NameMemory(params);
  ++read.receives;
  ++read.link->receives;
  void* const request = Ucx().ucp_am_recv_data_nbx(worker_->handle(), offer, piece->destination, bytes, &params);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    static_cast<void>(receive.release());  // OnReceived takes it.
    return;
  }
  EndReceive(*receive, request == nullptr ? UCS_OK : UCS_PTR_STATUS(request));
}

void PieceReader::OnReceived(void* request, ucs_status_t status, size_t bytes, void* arg) {
  const std::unique_ptr<Receive> receive(static_cast<Receive*>(arg));
  Ucx().ucp_request_free(request);
  receive->reader->EndReceive(*receive, status);
}

void PieceReader::EndReceive(const Receive& receive, ucs_status_t status) {
  --receive.read->receives;
  --receive.link->receives;
  if (receive.read->link == nullptr) {
    receive.link->give_up_at = --receive.link->given_up_receives > 0 ? InGiveUpMs() : kNever;
  }
  if (status == UCS_OK) receive.link->last_progress = MonotonicClock().Now();
  if (!pieces_.contains(receive.piece)) return;
  if (status != UCS_OK) {
    FailRead(*receive.read, absl::UnavailableError(UcxError("fetching from the peer", status).message()));
    return;
  }
  EndPiece(receive.piece);
}

void PieceReader::Write(Read& read, uint8_t* destination, absl::Span<const uint8_t> data) {
  if (options_.memory == nullptr) {
    std::memcpy(destination, data.data(), data.size());
    return;
  }
  read.has_copies = true;
  const absl::Status status = options_.memory->CopyIn(destination, data, stream_);
  if (!status.ok()) FailRead(read, status);
}

bool PieceReader::HasLanded(Read& read) {
  if (!read.has_copies) return true;
  if (read.mark == 0) {
    read.mark = ++marks_;
    const auto pass = [](void* reader) {
      static_cast<PieceReader*>(reader)->passed_marks_.fetch_add(1, std::memory_order_release);
      static_cast<PieceReader*>(reader)->options_.wake();
    };
    if (!options_.memory->CallWhenDone(stream_, pass, this).ok()) {
      // The stream tells nothing any more: it is waited for instead.
      read.status.Update(options_.memory->Synchronize(stream_));
      passed_marks_.fetch_add(1, std::memory_order_release);
    }
  }
  return passed_marks_.load(std::memory_order_acquire) >= read.mark;
}

void PieceReader::EndPiece(uint64_t id) {
  const auto it = pieces_.find(id);
  --it->second.read->pieces_in_flight;
  --it->second.read->link->pieces_in_flight;
  pieces_.erase(it);
}

void PieceReader::FailRead(Read& read, const absl::Status& status) {
  read.status.Update(status);
  std::vector<uint64_t> ended;
  for (const auto& [id, piece] : pieces_) {
    if (piece.read == &read) ended.push_back(id);
  }
  for (uint64_t id : ended) EndPiece(id);
}

void PieceReader::PostPiece(Read& read) {
  const CopyRange& range = read.asked.ranges[read.next_range];
  Link& link = *read.link;
  const uint64_t bytes = std::min<uint64_t>(range.bytes - read.posted_bytes, kMaxPieceBytes);
  const uint64_t id = next_piece_++;
  const PieceRequest request = {.piece = id,
                                .nonce = link.nonce,
                                .fetch = read.asked.fetch,
                                .offset = range.remote_offset + read.posted_bytes,
                                .bytes = bytes};
  if (!link.waits()) link.last_progress = MonotonicClock().Now();
  pieces_.emplace(
      id,
      Piece{.read = &read, .destination = read.asked.local + range.local_offset + read.posted_bytes, .bytes = bytes});
  ++read.pieces_in_flight;
  ++link.pieces_in_flight;
  read.posted_bytes += bytes;
  if (read.posted_bytes == range.bytes) {
    ++read.next_range;
    read.posted_bytes = 0;
  }
  if (absl::Status status = SendPieceMessage(link.endpoint, request); !status.ok()) FailRead(read, status);
}

bool PieceReader::CanPost(const Read& read) {
  return !read.all_posted() && read.link->lost.ok() && read.link->pieces_in_flight < kMaxPieces;
}

void PieceReader::PostPieces() {
  // A read asks for one piece in its turn, and then waits until all other reads have had theirs.
  for (size_t without_piece = 0; without_piece < reads_.size();) {
    std::unique_ptr<Read> read = std::move(reads_.front());
    reads_.pop_front();
    if (CanPost(*read)) {
      PostPiece(*read);
      without_piece = 0;
    } else {
      ++without_piece;
    }
    reads_.push_back(std::move(read));
  }
}

void PieceReader::FailReadsOf(const Link& link, const absl::Status& status) {
  for (const std::unique_ptr<Read>& read : reads_) {
    if (read->link == &link) FailRead(*read, status);
  }
}

void PieceReader::TendLinks() {
  const TimeNs now = MonotonicClock().Now();
  std::erase_if(links_, [&](const std::unique_ptr<Link>& link) {
    if (link->lost.ok() && link->waits() && now - link->last_progress >= stall_timeout_ns_) {
      link->lost =
          absl::UnavailableError(absl::StrCat("the peer has sent nothing for ", stall_timeout_ns_ / kNsPerMs, " ms"));
    }
    if (link->lost.ok() && now >= link->give_up_at) {
      link->lost = absl::UnavailableError("the peer kept a piece back that nobody waits for");
    }
    if (link->lost.ok()) return false;
    FailReadsOf(*link, link->lost);
    if (link->endpoint != nullptr) worker_->CloseEndpoint(std::exchange(link->endpoint, nullptr), /*force=*/true);
    return link->users == 0 && link->receives == 0;
  });
}

void PieceReader::ReportDone(std::vector<ReadCompletion>& completions) {
  std::erase_if(reads_, [&](const std::unique_ptr<Read>& read) {
    if (!read->all_posted() || read->pieces_in_flight > 0 || read->receives > 0 || !HasLanded(*read)) return false;
    completions.push_back({read->asked.read, read->status});
    return true;
  });
}

void PieceReader::Poll(std::vector<ReadCompletion>& completions) {
  PostPieces();
  worker_->Progress(kProgressCallsPerPoll);
  TendLinks();
  ReportDone(completions);
}

void PieceReader::Disconnect(PeerId peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  for (const std::unique_ptr<Read>& read : reads_) {
    if (read->asked.peer != peer) continue;
    FailRead(*read, absl::CancelledError("the peer was disconnected"));
    // UCX cannot be told to stop a receive, but it stops all of a connection that is closed.
    if (read->receives > 0) {
      it->second->given_up_receives += read->receives;
      if (it->second->give_up_at == kNever) it->second->give_up_at = InGiveUpMs();
    }
    read->link = nullptr;
  }
  --it->second->users;
  peers_.erase(it);
}

bool PieceReader::NeedsPoll() const {
  // UCX ends what it writes of a connection that is closed, and does not tell.
  const bool any_closed = std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return !link->lost.ok() && (link->endpoint != nullptr || link->receives > 0);
  });
  return any_closed || std::any_of(reads_.begin(), reads_.end(), [&](const std::unique_ptr<Read>& read) {
           if (!read->all_posted()) return CanPost(*read);
           // One that waits for its mark is told by the stream.
           return read->pieces_in_flight == 0 && read->receives == 0 && read->mark == 0;
         });
}

size_t PieceReader::in_flight(PeerId peer) const {
  return static_cast<size_t>(std::count_if(
      reads_.begin(), reads_.end(), [&](const std::unique_ptr<Read>& read) { return read->asked.peer == peer; }));
}

TimeNs PieceReader::NextTimer() const {
  TimeNs next = kNever;
  for (const auto& link : links_) {
    if (!link->lost.ok()) continue;
    next = std::min(next, link->give_up_at);
    if (link->waits()) next = std::min(next, link->last_progress + stall_timeout_ns_);
  }
  return next;
}

}  // namespace baton::kvtransfer
