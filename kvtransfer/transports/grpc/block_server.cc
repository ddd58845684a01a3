#include "kvtransfer/transports/grpc/block_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "kvtransfer/transports/transfer_server.h"

namespace baton::kvtransfer {
namespace pb = internal::v1;
namespace {

// A request has two numbers of at most ten bytes for each range.
constexpr int kMaxRequestBytes = 24 * static_cast<int>(kMaxRangesPerRead);
// The bound on the calls of all readers together.
constexpr size_t kMaxCalls = 4096;
constexpr int64_t kEndMs = 0;

absl::StatusOr<std::vector<RegionRange>> ReadRanges(const pb::KvReadRequest& request) {
  if (request.offsets_size() != request.bytes_size() || request.offsets_size() > static_cast<int>(kMaxRangesPerRead)) {
    return absl::InvalidArgumentError("the request has no valid ranges");
  }
  std::vector<RegionRange> ranges;
  ranges.reserve(static_cast<size_t>(request.offsets_size()));
  for (int i = 0; i < request.offsets_size(); ++i) {
    ranges.push_back({.offset = request.offsets(i), .bytes = request.bytes(i)});
  }
  return ranges;
}

grpc::Status Refusal(const std::string& what) { return {grpc::StatusCode::UNAVAILABLE, what}; }

}  // namespace

// Deleted by its last reaction.
class BlockServer::Call final : public grpc::ServerWriteReactor<pb::KvReadPiece> {
 public:
  Call(BlockServer& server, const pb::KvReadRequest& request) : server_(server) {
    const absl::StatusOr<Id128> nonce_read = rpc::FromBytes(request.nonce());
    const absl::StatusOr<Id128> fetch_read = rpc::FromBytes(request.fetch());
    absl::StatusOr<std::vector<RegionRange>> ranges_read = ReadRanges(request);
    is_valid = nonce_read.ok() && fetch_read.ok() && ranges_read.ok();
    if (!is_valid) return;
    nonce = *nonce_read;
    fetch = *fetch_read;
    ranges = *std::move(ranges_read);
  }

  void OnWriteDone(bool ok) override {
    write_failed = !ok;
    server_.OnReady(*this);
  }
  void OnDone() override { server_.OnDone(*this); }

  bool is_valid = false;
  Id128 nonce;
  Id128 fetch;
  std::vector<RegionRange> ranges;
  // What comes next: this range, from here.
  size_t next_range = 0;
  uint64_t next_byte = 0;
  pb::KvReadPiece piece;
  bool write_failed = false;

 private:
  BlockServer& server_;
};

absl::StatusOr<std::unique_ptr<BlockServer>> BlockServer::Create(const TransportOptions& options, ReadGrants& grants,
                                                                 RegionCopies& copies, std::function<void()> wake) {
  auto server = absl::WrapUnique(new BlockServer(grants, copies, std::move(wake)));
  BATON_ASSIGN_OR_RETURN(
      server->server_,
      BuildTransferServer(
          options, {.request_bytes = kMaxRequestBytes, .streams_per_connection = static_cast<int>(kMaxReadsInFlight)},
          *server));
  server->target_ = TargetFor(options, server->server_);
  return server;
}

BlockServer::~BlockServer() {
  if (server_.server == nullptr) return;
  std::deque<Call*> ready;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    ready.swap(ready_);
  }
  for (Call* call : ready) call->Finish(Refusal("the owner ends"));
  rpc::StopGrpcServer(*server_.server, kEndMs);
  absl::MutexLock lock(&mutex_);
  const auto none_left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
  mutex_.Await(absl::Condition(&none_left));
}

void BlockServer::Expose(const Id128& nonce, const uint8_t* base, const RegionLayout& layout) {
  nonce_ = nonce;
  base_ = base;
  layout_ = layout;
}

grpc::ServerWriteReactor<pb::KvReadPiece>* BlockServer::Read(grpc::CallbackServerContext* /*context*/,
                                                             const pb::KvReadRequest* request) {
  auto* const call = new Call(*this, *request);
  bool is_full = false;
  {
    absl::MutexLock lock(&mutex_);
    is_full = calls_.size() >= kMaxCalls;
    calls_.insert(call);
  }
  if (!call->is_valid) {
    call->Finish({grpc::StatusCode::INVALID_ARGUMENT, "the request is damaged"});
  } else if (is_full) {
    call->Finish(Refusal(absl::StrCat("the owner serves ", kMaxCalls, " others")));
  } else {
    OnReady(*call);
  }
  return call;
}

void BlockServer::OnReady(Call& call) {
  bool ending = false;
  {
    absl::MutexLock lock(&mutex_);
    ending = ending_;
    if (!ending) ready_.push_back(&call);
  }
  ending ? call.Finish(Refusal("the owner ends")) : wake_();
}

void BlockServer::OnDone(Call& call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(&call);
  delete &call;
}

bool BlockServer::NeedsPoll() {
  absl::MutexLock lock(&mutex_);
  return !ready_.empty();
}

void BlockServer::Poll() {
  for (int i = 0; i < kPiecesPerPoll; ++i) {
    Call* call = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (ready_.empty()) return;
      call = ready_.front();
      ready_.pop_front();
    }
    Serve(*call);
  }
}

void BlockServer::Serve(Call& call) {
  if (call.write_failed) return call.Finish(grpc::Status::CANCELLED);
  if (call.nonce != nonce_) return call.Finish(Refusal("another region is meant"));
  std::string& piece = *call.piece.mutable_data();
  piece.clear();
  while (piece.size() < kGrpcPieceBytes && call.next_range < call.ranges.size()) {
    const RegionRange& range = call.ranges[call.next_range];
    const uint64_t bytes = std::min<uint64_t>(range.bytes - call.next_byte, kGrpcPieceBytes - piece.size());
    if (bytes > 0 && !Copy(call.fetch, {.offset = range.offset + call.next_byte, .bytes = bytes}, piece)) {
      grants_.CountRefusal();
      return call.Finish(Refusal("the bytes are not granted, or not any more"));
    }
    call.next_byte += bytes;
    if (call.next_byte < range.bytes) continue;
    ++call.next_range;
    call.next_byte = 0;
  }
  piece.empty() ? call.Finish(grpc::Status::OK) : call.StartWrite(&call.piece);
}

bool BlockServer::Copy(const Id128& fetch, const RegionRange& range, std::string& piece) {
  const bool is_probe = fetch.is_zero() && layout_.IsProbe(range);
  if (!is_probe && !grants_.BeginSend(fetch, range)) return false;
  const bool copied = copies_.Append(piece, base_ + range.offset, range.bytes).ok();
  if (!is_probe) grants_.EndSend(fetch);
  return copied;
}

}  // namespace baton::kvtransfer
