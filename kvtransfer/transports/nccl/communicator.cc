#include "kvtransfer/transports/nccl/communicator.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace {

constexpr int kRanks = 2;
// A few multiprocessors: the engine needs the others, and the operations of many pairs, which wait for their peers,
// must be on the device at the same time.
constexpr int kMaxCtas = 4;
// While the library forms or launches, which takes it micro- to milliseconds.
constexpr int64_t kSettlePollNs = kNsPerMs / 2;
// While bytes move: only a failure is found by asking.
constexpr int64_t kFailurePollNs = 10 * kNsPerMs;

}  // namespace

Communicator::Communicator(const NcclApi& api, MemoryAccess& memory, const std::function<void()>& wake)
    : api_(api), memory_(memory), wake_(wake) {
  landed_->wake = wake;
}

Communicator::~Communicator() {
  Close();
  if (closing_.joinable()) closing_.join();
}

void Communicator::Form(const nccl::UniqueId& id, int rank) {
  BATON_CHECK(state_ == State::kNew);
  state_ = State::kForming;
  rank_ = rank;
  absl::StatusOr<MemoryAccess::Stream> stream = memory_.CreateStream();
  if (!stream.ok()) return Fail(stream.status());
  stream_ = *stream;
  nccl::Config config;
  config.blocking = 0;
  config.max_ctas = kMaxCtas;
  const nccl::Result result = api_.comm_init_rank_config(&comm_, kRanks, id, rank, &config);
  if (const absl::Status status = NcclStatus(api_, result, "forming a communicator"); !status.ok()) Fail(status);
}

uint64_t Communicator::Move(std::vector<MovedBytes> batch) {
  waiting_.push_back(std::move(batch));
  return ++moved_;
}

bool Communicator::IsSettled() {
  nccl::Result error = nccl::kSuccess;
  const nccl::Result result = api_.comm_get_async_error(comm_, &error);
  absl::Status status = NcclStatus(api_, result, "asking for errors");
  if (status.ok()) status = NcclStatus(api_, error, rank_ == kOwnerRank ? "as the owner" : "as the reader");
  if (!status.ok()) Fail(status);
  return status.ok() && error == nccl::kSuccess;
}

void Communicator::Poll() {
  if (state_ == State::kClosing && closed_) state_ = State::kClosed;
  if (state_ != State::kForming && state_ != State::kReady) return;
  // Read before the library is asked: a stream that a failure has ended counts nothing.
  const uint64_t landed = landed_->batches.load(std::memory_order_acquire);
  if (state_ == State::kReady && issued_ == done_ && waiting_.empty()) return;
  if (!IsSettled()) return;
  state_ = State::kReady;
  done_ = landed;
  if (std::exchange(launching_, false)) Watch();
  while (state_ == State::kReady && !launching_ && !waiting_.empty()) {
    Issue(waiting_.front());
    waiting_.pop_front();
    if (launching_ && IsSettled()) {
      launching_ = false;
      Watch();
    }
  }
}

void Communicator::Issue(const std::vector<MovedBytes>& batch) {
  ++issued_;
  nccl::Result first_failure = api_.group_start();
  for (const MovedBytes& part : batch) {
    const nccl::Result result = rank_ == kOwnerRank
                                    ? api_.send(part.address, part.bytes, nccl::kUint8, kReaderRank, comm_, stream_)
                                    : api_.receive(part.address, part.bytes, nccl::kUint8, kOwnerRank, comm_, stream_);
    if (first_failure == nccl::kSuccess && result != nccl::kInProgress) first_failure = result;
  }
  const nccl::Result ended = api_.group_end();
  if (first_failure == nccl::kSuccess) first_failure = ended;
  if (const absl::Status status = NcclStatus(api_, first_failure, "moving bytes"); !status.ok()) return Fail(status);
  launching_ = true;
}

void Communicator::Watch() {
  auto* const landed = new std::shared_ptr<Landed>(landed_);
  const auto on_landed = [](void* argument) {
    const std::unique_ptr<std::shared_ptr<Landed>> owned(static_cast<std::shared_ptr<Landed>*>(argument));
    (*owned)->batches.fetch_add(1, std::memory_order_release);
    (*owned)->wake();
  };
  const absl::Status status = memory_.CallWhenDone(stream_, on_landed, landed);
  if (status.ok()) return;
  delete landed;
  Fail(status);
}

void Communicator::Fail(const absl::Status& error) {
  if (state_ == State::kFailed) return;
  error_ = error;
  state_ = State::kFailed;
}

void Communicator::Close() {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  if (comm_ == nullptr && stream_ == nullptr) {
    state_ = State::kClosed;
    return;
  }
  state_ = State::kClosing;
  closing_ = std::thread([this] {
    if (comm_ != nullptr) api_.comm_abort(comm_);
    if (stream_ != nullptr) memory_.DestroyStream(stream_);
    closed_ = true;
    wake_();
  });
}

int64_t Communicator::poll_interval_ns() const {
  if (state_ == State::kForming || launching_) return kSettlePollNs;
  return state_ == State::kReady && issued_ > done_ ? kFailurePollNs : kNever;
}

}  // namespace baton::kvtransfer
