// The reader of pieces over RDMA against owners that answer as a good owner would not.
#include "kvtransfer/transports/ucx/piece_reader.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "kvtransfer/testing/rdma_over_loopback.h"
#include "kvtransfer/transports/ucx/network_worker.h"
#include "kvtransfer/transports/ucx/piece_wire.h"
#include "kvtransfer/transports/ucx/ucx_library.h"
#include "kvtransfer/transports/ucx/ucx_worker.h"

namespace baton::kvtransfer {
namespace {

constexpr size_t kTwoPiecesBytes = 2 * kMaxPieceBytes;
constexpr uint8_t kPattern = 0x5a;
constexpr PeerId kPeer = 1;
constexpr Id128 kNonce{.high = 1, .low = 2};
constexpr int64_t kNeverInATestMs = 3'600'000;

std::unique_ptr<UcxWorker> MakeWorker(std::vector<uint8_t>& memory) {
  UseLoopbackForRdma();
  auto worker = *MakeRdmaWorker(*FindRdmaNetwork());
  BATON_CHECK(worker->RegisterMemory(memory.data(), memory.size(), UCS_MEMORY_TYPE_HOST).ok());
  return worker;
}

// Answers each request as the test says.
class ScriptedOwner {
 public:
  using Answer = std::function<void(ScriptedOwner& owner, const PieceRequest& request, ucp_ep_h reader)>;

  explicit ScriptedOwner(Answer answer) : answer_(std::move(answer)), worker_(MakeWorker(memory_)) {
    BATON_CHECK(worker_->HandleMessages(kPieceRequestMessage, &ScriptedOwner::OnRequest, this).ok());
  }

  void Offer(const PieceRequest& request, size_t bytes, ucp_ep_h reader) {
    headers_.push_back({.piece = request.piece, .offset = 0, .kind = FragmentKind::kData});
    const auto done = [](void* sent, ucs_status_t, void*) { Ucx().ucp_request_free(sent); };
    BATON_CHECK(OfferPiece(reader, *worker_, headers_.back(), {memory_.data(), bytes}, done, nullptr).ok());
  }

  void SendFragment(const PieceRequest& request, FragmentKind kind, size_t bytes, ucp_ep_h reader) {
    const FragmentHeader header = {.piece = request.piece, .offset = 0, .kind = kind};
    BATON_CHECK(SendPieceMessage(reader, header, {memory_.data(), bytes}, nullptr).ok());
  }

  void Poll() { worker_->Progress(/*max_calls=*/16); }
  int requests() const { return requests_; }
  PieceReader::Owner name() { return {.nonce = kNonce, .worker = *worker_->Address()}; }

 private:
  static ucs_status_t OnRequest(void* self, const void* header, size_t, void*, size_t,
                                const ucp_am_recv_param_t* param) {
    auto& owner = *static_cast<ScriptedOwner*>(self);
    PieceRequest request;
    std::memcpy(&request, header, sizeof(request));
    ++owner.requests_;
    owner.answer_(owner, request, param->reply_ep);
    return UCS_OK;
  }

  const Answer answer_;
  int requests_ = 0;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kMaxPieceBytes, kPattern);
  // UCX refers to them while it sends.
  std::list<FragmentHeader> headers_;
  std::unique_ptr<UcxWorker> worker_;
};

// Reads two pieces.
class Reading {
 public:
  explicit Reading(ScriptedOwner& owner, int64_t stall_timeout_ms = kNeverInATestMs)
      : reader_(*PieceReader::Create(MakeWorker(memory_), {.network = "RDMA", .stall_timeout_ms = stall_timeout_ms})) {
    BATON_CHECK(reader_->Connect(kPeer, owner.name()).ok());
    reader_->Add(
        {.read = 1, .peer = kPeer, .fetch = {}, .local = memory_.data(), .ranges = {{.bytes = kTwoPiecesBytes}}});
  }

  void Poll() { reader_->Poll(completions_); }
  bool is_over() const { return !completions_.empty(); }
  absl::Status status() const { return completions_.front().status; }
  bool has_pattern() const {
    return std::all_of(memory_.begin(), memory_.end(), [](uint8_t byte) { return byte == kPattern; });
  }

 private:
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kTwoPiecesBytes);
  std::unique_ptr<PieceReader> reader_;
  std::vector<ReadCompletion> completions_;
};

absl::Status StatusOf(Reading& reading, ScriptedOwner& owner) {
  while (!reading.is_over()) {
    reading.Poll();
    owner.Poll();
  }
  return reading.status();
}

TEST(PieceReaderTest, APieceThatIsOfferedTwiceIsReadOnce) {
  ScriptedOwner owner([](ScriptedOwner& self, const PieceRequest& request, ucp_ep_h reader) {
    for (int offer = 0; offer < 2; ++offer) self.Offer(request, request.bytes, reader);
  });
  Reading reading(owner);
  EXPECT_EQ(StatusOf(reading, owner), absl::OkStatus());
  EXPECT_TRUE(reading.has_pattern());
}

TEST(PieceReaderTest, AnOfferOfOtherBytesThanWereAskedForFailsTheRead) {
  ScriptedOwner owner([](ScriptedOwner& self, const PieceRequest& request, ucp_ep_h reader) {
    self.Offer(request, request.bytes / 2, reader);
  });
  Reading reading(owner);
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(reading, owner))) << reading.status();
}

TEST(PieceReaderTest, FragmentsAreNotWrittenIntoRegisteredMemory) {
  ScriptedOwner owner([](ScriptedOwner& self, const PieceRequest& request, ucp_ep_h reader) {
    self.SendFragment(request, FragmentKind::kData, kFragmentBytes, reader);
  });
  Reading reading(owner);
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(reading, owner))) << reading.status();
}

TEST(PieceReaderTest, ARefusedReadEndsThoughItsOwnerFallsSilentWithAPieceOnItsWay) {
  ScriptedOwner owner([](ScriptedOwner& self, const PieceRequest& request, ucp_ep_h reader) {
    if (self.requests() == 1) return self.Offer(request, request.bytes, reader);
    self.SendFragment(request, FragmentKind::kRefused, 0, reader);
  });
  Reading reading(owner, /*stall_timeout_ms=*/300);
  while (owner.requests() < 2) {
    reading.Poll();
    owner.Poll();
  }
  while (!reading.is_over()) reading.Poll();
  EXPECT_TRUE(absl::IsUnavailable(reading.status())) << reading.status();
}

}  // namespace
}  // namespace baton::kvtransfer
