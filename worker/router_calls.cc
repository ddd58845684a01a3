#include "worker/router_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/drain.h"
#include "common/rpc/capability.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/status.h"
#include "common/test_delay.h"

namespace baton::worker {
namespace pb = internal::v1;

class RouterCalls::Side final : public UpdateSink {
 public:
  Side(RouterCalls& calls, Phase& phase) : phase(phase), calls_(calls) {}

  void Update(const JobKey& key, const WorkerUpdate& update) override {
    const auto it = numbers.find(key);
    if (it == numbers.end()) return;
    rpc::AddReport(it->second, update, &calls_.round_);
    if (update.kind == WorkerUpdate::Kind::kFrozen) ++calls_.frozen_calls_;
    calls_.says_something_ = true;
  }

  void End(const JobKey& key, const absl::Status& status) override {
    const auto it = numbers.find(key);
    if (it == numbers.end()) return;
    calls_.SayEnd(it->second, status);
    calls_.calls_.erase(it->second);
    numbers.erase(it);
  }

  Phase& phase;
  absl::flat_hash_map<JobKey, uint64_t> numbers;

 private:
  RouterCalls& calls_;
};

RouterCalls::RouterCalls(const Clock& clock, WorkNote& work) : clock_(clock), work_(work) {}
RouterCalls::~RouterCalls() = default;

UpdateSink& RouterCalls::Add(Phase& phase) {
  sides_.push_back(std::make_unique<Side>(*this, phase));
  return *sides_.back();
}

void RouterCalls::OnJoined(std::shared_ptr<RouterStream> stream, uint64_t features) {
  stream_ = std::move(stream);
  block_reports_.Stop();
  if ((features & rpc::kFeatureBlockReports) != 0) block_reports_.Start(clock_.Now());
  knows_other_routers_ = (features & rpc::kFeatureOtherRouters) != 0;
}

void RouterCalls::OnMessage(const pb::RouterMessage& message) {
  if (message.has_accepted()) {
    const absl::StatusOr<MembershipId> membership = rpc::FromBytes(message.accepted().membership());
    if (membership.ok()) membership_tag_ = rpc::MembershipTag(*membership);
  }
  if (message.has_capability_key()) capability_key_ = message.capability_key();
  for (const pb::CallStart& start : message.starts()) Start(start);
  for (const uint64_t number : message.cancels()) {
    const auto it = calls_.find(number);
    if (it == calls_.end()) continue;
    const Call call = it->second;
    call.side->phase.Cancel(call.key, absl::CancelledError("the router cancelled"));
  }
  for (const pb::HandOver& hand_over : message.hand_overs()) BeginHandOver(hand_over);
  if (message.drain_accepted()) drain_accepted_ = true;
}

void RouterCalls::Start(const pb::CallStart& start) {
  const absl::Status started = TryStart(start);
  if (!started.ok()) SayEnd(start.call(), started);
}

void RouterCalls::BeginHandOver(const pb::HandOver& hand_over) {
  const auto it = calls_.find(hand_over.call());
  const absl::StatusOr<Id128> secret = rpc::FromBytes(hand_over.secret());
  // Without it the job goes on here.
  if (it == calls_.end() || !secret.ok()) return;
  const Call call = it->second;
  JobKey next = call.key;
  next.attempt = hand_over.next_attempt();
  HandOver asked = {.next = next, .secret = *secret, .reader = {}};
  if (hand_over.needs_capability()) asked.reader = {.incarnation = {}, .membership = membership_tag_};
  call.side->phase.Begin(call.key, asked);
}

absl::Status RouterCalls::ReadCapability(const pb::CallStart& start, WorkerJob& job) const {
  if (!start.prefill().reader_incarnation().empty()) {
    job.reader = {.incarnation = {}, .membership = membership_tag_};
    BATON_ASSIGN_OR_RETURN(job.reader->incarnation, rpc::FromBytes(start.prefill().reader_incarnation()));
  }
  if (!start.decode().has_capability()) return absl::OkStatus();
  if (!capability_key_.has_value()) return absl::InvalidArgumentError("a capability without its key");
  pb::Capability capability;
  *capability.mutable_terms() = start.decode().capability();
  *capability.mutable_key() = *capability_key_;
  job.capability = capability.SerializeAsString();
  return absl::OkStatus();
}

void RouterCalls::SayEnd(uint64_t call, const absl::Status& status) {
  rpc::AddEnd(call, status, &round_);
  says_something_ = true;
}

absl::Status RouterCalls::TryStart(const pb::CallStart& start) {
  // The router places what was refused for lack of room elsewhere.
  if (cut_) return absl::ResourceExhaustedError("the worker is shutting down");
  TestDelay("start");
  BATON_ASSIGN_OR_RETURN(WorkerJob job, rpc::FromProto(start.job(), clock_.Now()));
  BATON_RETURN_IF_ERROR(ReadCapability(start, job));
  if (calls_.contains(start.call())) {
    return absl::AlreadyExistsError(absl::StrCat("call ", start.call(), " is open"));
  }
  for (const std::unique_ptr<Side>& side : sides_) {
    if (side->phase.side() != start.side_case()) continue;
    const JobKey key = job.key;
    if (!side->numbers.emplace(key, start.call()).second) {
      return absl::AlreadyExistsError(absl::StrCat("attempt ", key.ToString()));
    }
    calls_[start.call()] = {side.get(), key};
    work_.Add(key);
    absl::Status started = side->phase.Start(std::move(job), start);
    work_.Clear();
    if (started.ok()) return started;
    side->numbers.erase(key);
    calls_.erase(start.call());
    return started;
  }
  return absl::InvalidArgumentError("the start of a phase that this worker has not");
}

void RouterCalls::OnLost(const absl::Status& why) {
  stream_.reset();
  capability_key_.reset();
  block_reports_.Stop();
  round_.Clear();
  says_something_ = false;
  calls_.clear();
  for (const std::unique_ptr<Side>& side : sides_) {
    // The phase answers each cancellation with an end, which nobody awaits any more.
    for (const auto& [key, number] : std::exchange(side->numbers, {})) side->phase.Cancel(key, why);
  }
}

std::vector<ChoiceKey> RouterCalls::CutAll(int64_t drain_timeout_ms) {
  cut_ = true;
  calls_.clear();
  std::vector<ChoiceKey> cut;
  for (const std::unique_ptr<Side>& side : sides_) {
    for (const auto& [key, number] : std::exchange(side->numbers, {})) {
      const absl::Status why = CutByDrain(key.choice_key(), drain_timeout_ms);
      SayEnd(number, why);
      cut.push_back(key.choice_key());
      // The phase answers with an end of a call that is not open any more.
      side->phase.Cancel(key, why);
    }
  }
  Flush();
  std::sort(cut.begin(), cut.end());
  cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
  return cut;
}

void RouterCalls::SayBlocks(const BlockReport& report) {
  if (!block_reports_.OnReport(clock_.Now(), report)) return;
  if (report.other_routers_blocks > 0 && !knows_other_routers_) return;
  round_.clear_blocks();
  rpc::ToProto(report, round_.mutable_blocks());
  says_something_ = true;
}

void RouterCalls::Flush() {
  if (!says_something_) return;
  says_something_ = false;
  if (stream_ != nullptr) {
    stream_->Send(round_.ByteSizeLong(), [this](pb::WorkerMessage& message) {
      // Holders of two reports do not add up.
      if (round_.has_blocks()) message.clear_blocks();
      message.MergeFrom(round_);
    });
  }
  round_.Clear();
}

}  // namespace baton::worker
