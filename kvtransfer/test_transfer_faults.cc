#include "kvtransfer/test_transfer_faults.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/log.h"
#include "common/status.h"

namespace baton::kvtransfer {
namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> transport, std::unique_ptr<RegionCopies> copies,
                  const TransferFaults& faults, const Clock& clock)
      : transport_(std::move(transport)), copies_(std::move(copies)), faults_(faults), clock_(clock) {}

  std::string_view name() const override { return transport_->name(); }
  absl::StatusOr<absl::Span<uint8_t>> AllocateRegion(size_t bytes) override {
    BATON_ASSIGN_OR_RETURN(region_, transport_->AllocateRegion(bytes));
    return region_;
  }
  absl::StatusOr<std::string> Address() override { return transport_->Address(); }
  absl::StatusOr<PeerId> Connect(std::string_view address) override { return transport_->Connect(address); }
  std::string_view PathOf(PeerId peer) const override { return transport_->PathOf(peer); }
  bool shares_memory() const override { return transport_->shares_memory(); }
  ReadGrants& grants() override { return transport_->grants(); }
  absl::StatusOr<ReadId> StartProbe(PeerId peer, size_t bytes) override { return transport_->StartProbe(peer, bytes); }
  void Wake() override { transport_->Wake(); }
  void Disconnect(PeerId peer) override { transport_->Disconnect(peer); }

  absl::StatusOr<ReadId> StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) override;
  void Poll(std::vector<ReadCompletion>& completions) override;
  void WaitForEvent(int64_t timeout_ns) override;

 private:
  using Kind = TransferFaults::Kind;
  struct Planted {
    uint64_t number = 0;
    std::vector<CopyRange> ranges;
    // What kStale puts back.
    std::vector<std::vector<uint8_t>> before;
  };
  struct Late {
    TimeNs due = 0;
    ReadCompletion completion;
  };

  // Says so in the log, unless the region holds what it would without a fault.
  void Plant(const Planted& planted, ReadCompletion& completion);
  // These two return whether the region holds other bytes than those that were read.
  bool Flip(const Planted& planted);
  bool PutBack(const Planted& planted);

  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<RegionCopies> copies_;
  const TransferFaults faults_;
  const Clock& clock_;
  absl::Span<uint8_t> region_;
  uint64_t started_ = 0;
  absl::flat_hash_map<ReadId, Planted> planted_;
  // Oldest first.
  std::vector<Late> late_;
};

absl::StatusOr<ReadId> FaultyTransport::StartRead(PeerId peer, const Id128& fetch, absl::Span<const CopyRange> ranges) {
  Planted planted{.number = ++started_, .ranges = {ranges.begin(), ranges.end()}, .before = {}};
  const bool has_fault = planted.number % static_cast<uint64_t>(faults_.every) == 0;
  if (has_fault && faults_.kind == Kind::kStale) {
    for (const CopyRange& range : ranges) {
      // The transport refuses what lies outside.
      if (range.local_offset > region_.size() || range.bytes > region_.size() - range.local_offset) continue;
      std::vector<uint8_t>& before = planted.before.emplace_back(range.bytes);
      BATON_RETURN_IF_ERROR(copies_->Out(absl::MakeSpan(before), region_.data() + range.local_offset));
    }
  }
  BATON_ASSIGN_OR_RETURN(const ReadId read, transport_->StartRead(peer, fetch, ranges));
  if (has_fault) planted_[read] = std::move(planted);
  return read;
}

void FaultyTransport::Poll(std::vector<ReadCompletion>& completions) {
  std::vector<ReadCompletion> done;
  transport_->Poll(done);
  for (ReadCompletion& completion : done) {
    if (const auto it = planted_.find(completion.read); it != planted_.end()) {
      const Planted planted = std::move(it->second);
      planted_.erase(it);
      if (faults_.kind == Kind::kDelay) {
        late_.push_back({After(clock_.Now(), TransferFaults::kDelayMs), std::move(completion)});
        continue;
      }
      if (completion.status.ok()) Plant(planted, completion);
    }
    completions.push_back(std::move(completion));
  }
  const auto is_late = [now = clock_.Now()](const Late& late) { return late.due > now; };
  const auto end = std::find_if(late_.begin(), late_.end(), is_late);
  for (auto it = late_.begin(); it != end; ++it) completions.push_back(std::move(it->completion));
  late_.erase(late_.begin(), end);
}

void FaultyTransport::WaitForEvent(int64_t timeout_ns) {
  if (!late_.empty()) {
    timeout_ns = std::min(timeout_ns, std::max<int64_t>(0, late_.front().due - clock_.Now()));
  }
  transport_->WaitForEvent(timeout_ns);
}

void FaultyTransport::Plant(const Planted& planted, ReadCompletion& completion) {
  if (faults_.kind == Kind::kFlip && !Flip(planted)) return;
  if (faults_.kind == Kind::kStale && !PutBack(planted)) return;
  if (faults_.kind == Kind::kError) completion.status = absl::UnavailableError("planted by a test");
  spdlog::warn("a test has planted a fault in read {}", planted.number);
}

// Another place in each read.
bool FaultyTransport::Flip(const Planted& planted) {
  constexpr uint64_t kPrime = 7'919;
  const CopyRange& range = planted.ranges[planted.number % planted.ranges.size()];
  uint8_t* const at = region_.data() + range.local_offset + planted.number * kPrime % range.bytes;
  uint8_t byte = 0;
  if (!copies_->Out({&byte, 1}, at).ok()) return false;
  byte ^= static_cast<uint8_t>(1U << planted.number % 8);
  return copies_->In(at, {&byte, 1}).ok();
}

bool FaultyTransport::PutBack(const Planted& planted) {
  bool differs = false;
  for (size_t i = 0; i < planted.before.size(); ++i) {
    uint8_t* const at = region_.data() + planted.ranges[i].local_offset;
    std::vector<uint8_t> read(planted.before[i].size());
    if (!copies_->Out(absl::MakeSpan(read), at).ok() || read == planted.before[i]) continue;
    differs |= copies_->In(at, planted.before[i]).ok();
  }
  return differs;
}

}  // namespace

absl::StatusOr<TransferFaults> ParseTransferFaults(std::string_view text) {
  using Kind = TransferFaults::Kind;
  static const auto* const kKinds = new std::map<std::string, Kind>{
      {"flip", Kind::kFlip}, {"stale", Kind::kStale}, {"error", Kind::kError}, {"delay", Kind::kDelay}};
  const std::pair<std::string, std::string> parts = absl::StrSplit(ToAbsl(text), absl::MaxSplits(':', 1));
  const auto kind = kKinds->find(parts.first);
  int every = 0;
  if (kind == kKinds->end() || !absl::SimpleAtoi(parts.second, &every) || every < 1) {
    return absl::InvalidArgumentError(absl::StrCat("BATON_TEST_TRANSFER_FAULTS: \"", ToAbsl(text),
                                                   "\" is not like flip:5; the kinds are flip, stale, error, delay"));
  }
  return TransferFaults{.kind = kind->second, .every = every};
}

std::unique_ptr<Transport> WithTransferFaults(std::unique_ptr<Transport> transport,
                                              std::unique_ptr<RegionCopies> copies, const TransferFaults& faults,
                                              const Clock& clock) {
  return std::make_unique<FaultyTransport>(std::move(transport), std::move(copies), faults, clock);
}

absl::StatusOr<std::unique_ptr<Transport>> WithTestTransferFaults(std::unique_ptr<Transport> transport,
                                                                  MemoryAccess* memory) {
  const char* const text = std::getenv("BATON_TEST_TRANSFER_FAULTS");
  if (text == nullptr) return transport;
  BATON_ASSIGN_OR_RETURN(const TransferFaults faults, ParseTransferFaults(text));
  spdlog::warn("a test has planted faults in the hand-off: {}", text);
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<RegionCopies> copies, RegionCopies::Create(memory));
  return WithTransferFaults(std::move(transport), std::move(copies), faults, MonotonicClock());
}

}  // namespace baton::kvtransfer
