#include "kvtransfer/test_transfer_faults.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "common/testing/manual_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvtransfer/transports/inproc/inproc_transport.h"

namespace baton::kvtransfer {
namespace {

using Kind = TransferFaults::Kind;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr size_t kBytes = 4096;
constexpr uint8_t kOld = 0x11;
constexpr uint8_t kNew = 0x5a;

class TransferFaultsTest : public ::testing::Test {
 protected:
  void Plant(const TransferFaults& faults) {
    reader_ = WithTransferFaults(MakeInprocTransport(), *RegionCopies::Create(nullptr), faults, clock_);
    local_ = reader_->AllocateRegion(kBytes).value();
    absl::Span<uint8_t> remote = owner_->AllocateRegion(kBytes).value();
    std::fill(remote.begin(), remote.end(), kNew);
    owner_->grants().Grant(kFetch, {{.offset = 0, .bytes = kBytes}});
    peer_ = reader_->Connect(owner_->Address().value()).value();
  }
  void Start() {
    std::fill(local_.begin(), local_.end(), kOld);
    const std::vector<CopyRange> halves = {
        {.bytes = kBytes / 2}, {.remote_offset = kBytes / 2, .local_offset = kBytes / 2, .bytes = kBytes / 2}};
    EXPECT_TRUE(reader_->StartRead(peer_, kFetch, halves).ok());
  }
  std::vector<ReadCompletion> Poll() {
    std::vector<ReadCompletion> completions;
    reader_->Poll(completions);
    return completions;
  }
  absl::Status Read() {
    Start();
    const std::vector<ReadCompletion> completions = Poll();
    EXPECT_EQ(completions.size(), 1u);
    return completions.empty() ? absl::UnknownError("no completion") : completions[0].status;
  }
  int WrongBits() const {
    int bits = 0;
    for (const uint8_t byte : local_) bits += std::popcount(static_cast<uint8_t>(byte ^ kNew));
    return bits;
  }

  static constexpr Id128 kFetch{.high = 3, .low = 4};
  ManualClock clock_;
  std::unique_ptr<Transport> owner_ = MakeInprocTransport();
  std::unique_ptr<Transport> reader_;
  absl::Span<uint8_t> local_;
  PeerId peer_ = 0;
};

TEST_F(TransferFaultsTest, AFlipIsOneBitOfEachNthRead) {
  Plant({.kind = Kind::kFlip, .every = 3});
  std::vector<int> wrong;
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(Read().ok());
    wrong.push_back(WrongBits());
  }
  EXPECT_THAT(wrong, ElementsAre(0, 0, 1, 0, 0, 1, 0));
}

TEST_F(TransferFaultsTest, AStaleReadSucceedsAndLeavesWhatWasThere) {
  Plant({.kind = Kind::kStale, .every = 2});
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(local_, Each(kNew));
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(local_, Each(kOld));
}

TEST_F(TransferFaultsTest, AnErrorIsUnavailable) {
  Plant({.kind = Kind::kError, .every = 2});
  EXPECT_TRUE(Read().ok());
  EXPECT_TRUE(absl::IsUnavailable(Read()));
  EXPECT_TRUE(Read().ok());
}

TEST_F(TransferFaultsTest, ADelayedReadCompletesLaterThanThoseAfterIt) {
  Plant({.kind = Kind::kDelay, .every = 2});
  EXPECT_TRUE(Read().ok());
  Start();
  EXPECT_TRUE(Poll().empty());
  EXPECT_TRUE(Read().ok());
  clock_.Advance(TransferFaults::kDelayMs * kNsPerMs - 1);
  EXPECT_TRUE(Poll().empty());
  clock_.Advance(1);
  EXPECT_EQ(Poll().size(), 1u);
}

TEST(ParseTransferFaultsTest, TakesAKindAndANumberAndNothingElse) {
  const absl::StatusOr<TransferFaults> faults = ParseTransferFaults("stale:7");
  ASSERT_TRUE(faults.ok());
  EXPECT_EQ(faults->kind, Kind::kStale);
  EXPECT_EQ(faults->every, 7);
  for (const char* bad : {"", "flip", "flip:", "flip:0", "flip:-1", "flip:x", "drop:3", ":3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTransferFaults(bad).status())) << bad;
  }
}

}  // namespace
}  // namespace baton::kvtransfer
