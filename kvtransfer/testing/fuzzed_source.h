// A KvSource whose router, readers and engine do what a fuzzer's input says: readers may say anything at any time,
// while the worker around the source keeps to its rules. Every action is checked as it comes. For fuzzers.
#ifndef BATON_KVTRANSFER_TESTING_FUZZED_SOURCE_H_
#define BATON_KVTRANSFER_TESTING_FUZZED_SOURCE_H_

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/testing/fuzz_input.h"
#include "common/testing/manual_clock.h"
#include "kvtransfer/kv_source.h"
#include "kvtransfer/rpc/fetch_wire.h"
#include "kvtransfer/testing/describe_handoff.h"
#include "kvtransfer/testing/fake_block_access.h"

namespace baton::kvtransfer {

class FuzzedSource {
 public:
  explicit FuzzedSource(FuzzInput& input) : input_(input) {}

  void Run() {
    while (!input_.empty()) {
      Step();
      Settle();
    }
    EndAll();
  }

 private:
  static constexpr uint64_t kJobs = 4;
  static constexpr size_t kStreams = 5;
  static constexpr uint64_t kBlockBytes = 64;

  struct Stream {
    // The last one, whether it was taken or not.
    FetchOpen open;
    // When the last message came that prolongs its lease.
    TimeNs renewed = 0;
  };
  struct Job {
    ReaderRules rules;
    int32_t blocks = 0;
    bool solo = false;
    bool licensed = false;
    // The prompt is computed, or it was revoked: the owner says no more about it.
    bool over = false;
    bool announced = false;
    int32_t computed = 0;
    // The stream that reads it; 0 without one. What it asked for, and when that was last prolonged.
    FetchStreamId reader = 0;
    Stream read = {};
    bool released = false;
  };

  static KvSourceOptions Options() {
    KvSourceOptions options;
    options.incarnation = kSourceIncarnation;
    options.fingerprint = "same";
    options.transport_address = "address";
    options.block_bytes = kBlockBytes;
    options.max_tombstones = 3;
    options.max_parked = 2;
    return options;
  }

  JobKey DrawKey() { return KeyOf(1 + static_cast<uint64_t>(input_.Below(kJobs))); }
  // The attempt's own, or in few cases another.
  Id128 DrawSecret(const JobKey& key) {
    Id128 secret = SecretOf(key);
    if (input_.Rarely()) ++secret.high;
    return secret;
  }
  // What the router signs for the attempt, or in few cases something else.
  CapabilityTerms DrawTerms(const JobKey& key) {
    CapabilityTerms terms = {.key = key,
                             .source = kSourceIncarnation,
                             .reader = {.high = 1, .low = 1},
                             .membership = {.high = 2, .low = 2},
                             .tenant = "tenant"};
    if (input_.Rarely()) terms.key = DrawKey();
    if (input_.Rarely()) terms.source.low = input_.Byte();
    if (input_.Rarely()) terms.reader = {.high = 0, .low = input_.Byte()};
    if (input_.Rarely()) terms.membership.low = input_.Byte();
    if (input_.Rarely()) terms.tenant = input_.Text(8);
    if (input_.Rarely()) terms.first_block = input_.Byte();
    return terms;
  }
  FetchStreamId DrawStream() { return streams_[static_cast<size_t>(input_.Below(kStreams))]; }

  void Step() {
    switch (input_.Below(9)) {
      case 0:
        return Prefill();
      case 1:
        return Say(DrawStream(), DrawOpen());
      case 2:
        return Say(DrawStream(), ToProto(FetchRequest(FetchRenew{input_.Hostile<uint64_t>()})));
      case 3:
        return Say(DrawStream(), ToProto(FetchRequest(FetchRelease{})));
      case 4: {
        internal::v1::FetchRequest any;
        if (any.ParseFromString(input_.Text(128))) Say(DrawStream(), any);
        return;
      }
      case 5:
        return CloseStreamOfReader(DrawStream());
      case 6:
        return Compute(DrawKey());
      case 7:
        return GiveUp(DrawKey());
      default:
        return Wait();
    }
  }

  void Prefill() {
    const JobKey key = DrawKey();
    Job job{.rules = {.secret = DrawSecret(key)}, .blocks = input_.Below(5), .solo = input_.Rarely()};
    if (input_.Flag()) {
      const CapabilityTerms terms = DrawTerms(key);
      job.rules.reader = {.incarnation = terms.reader, .membership = terms.membership};
      job.rules.tenant = terms.tenant;
    }
    const TimeNs deadline = input_.Flag() ? kNever : After(clock_.Now(), 10 * int64_t{input_.Byte()});
    if (!core_.OnPrefill(key, job.rules, deadline, job.solo).ok()) return;
    BATON_CHECK(jobs_.emplace(key, job).second) << "the source has taken a job twice";
  }

  internal::v1::FetchRequest DrawOpen() {
    const JobKey key = DrawKey();
    FetchOpen open{.key = key,
                   .secret = DrawSecret(key),
                   .source = kSourceIncarnation,
                   .fingerprint = "same",
                   .first_block = input_.Flag() ? input_.Hostile<int32_t>() : 0,
                   .lease_ms = input_.Flag() ? 1'000 : input_.Hostile<int64_t>(),
                   .takes_begun = input_.Flag()};
    if (input_.Rarely()) open.source.low = input_.Byte();
    if (input_.Rarely()) open.fingerprint = input_.Text(200);
    return ToProto(FetchRequest(open));
  }

  // As FetchService does with what comes from a reader.
  void Say(FetchStreamId stream, const internal::v1::FetchRequest& proto) {
    absl::StatusOr<FetchRequest> request = FromProto(proto);
    if (!request.ok()) return CloseStreamOfReader(stream);
    if (auto* open = std::get_if<FetchOpen>(&*request)) {
      // As FetchEndpoint does, which verifies what the reader shows.
      if (input_.Flag()) open->terms = DrawTerms(open->key);
      // A job that is read on this stream loses its reader.
      for (auto& [key, job] : jobs_) job.reader = job.reader == stream ? 0 : job.reader;
      said_[stream] = {.open = *open, .renewed = clock_.Now()};
      core_.OnFetchOpen(stream, *open);
    } else if (const auto* renew = std::get_if<FetchRenew>(&*request)) {
      core_.OnFetchRenew(stream, *renew);
    } else {
      for (auto& [key, job] : jobs_) job.released |= job.reader == stream;
      core_.OnFetchRelease(stream);
    }
  }

  void CloseStreamOfReader(FetchStreamId stream) {
    core_.OnFetchClosed(stream);
    std::replace(streams_.begin(), streams_.end(), stream, ++last_stream_);
  }

  // The engine's next chunk of a prompt, with its end perhaps.
  void Compute(const JobKey& key) {
    const auto it = jobs_.find(key);
    if (it == jobs_.end() || !it->second.licensed || it->second.over) return;
    Job& job = it->second;
    computing_ = key;
    const int32_t end = std::min(job.blocks, job.computed + input_.Below(4));
    BlocksBegun begun;
    for (int32_t index = job.computed; index < end && input_.Rarely(); ++index) {
      begun.blocks.push_back({.index = index, .offset = static_cast<uint64_t>(index) * kBlockBytes, .bytes = 16});
    }
    if (!begun.blocks.empty()) return core_.OnBlocksBegun(key, begun);
    BlocksReady ready;
    for (; job.computed < end; ++job.computed) {
      ready.blocks.push_back({.index = job.computed, .offset = static_cast<uint64_t>(job.computed) * kBlockBytes});
    }
    if (!ready.blocks.empty()) core_.OnBlocksComputed(key, ready);
    if (job.computed < job.blocks || input_.Flag()) return;
    job.over = true;
    core_.OnPromptFinished(key, {.block_count = job.blocks});
  }

  void GiveUp(const JobKey& key) {
    if (input_.Flag()) return core_.OnCancel(key, absl::CancelledError("router"));
    const auto it = jobs_.find(key);
    if (it != jobs_.end() && it->second.licensed && !it->second.over) core_.OnFailed(key, absl::AbortedError("engine"));
  }

  void Wait() {
    constexpr int64_t kMostMs = 2'000;
    clock_.AdvanceMs(kMostMs * input_.Byte() / 256);
    // Over a network the owner stops its readers, over shared memory they may go on.
    access_.stops_readers = input_.Flag();
    RunTimers();
  }
  void RunTimers() {
    if (core_.NextTimer() <= clock_.Now()) core_.OnTimer();
    BATON_CHECK(core_.NextTimer() > clock_.Now()) << "the loop would spin";
  }

  void Settle() {
    for (const SourceAction& action : core_.TakeActions()) {
      std::visit([this](const auto& a) { Handle(a); }, action);
    }
    const auto licensed = [](const auto& job) { return job.second.licensed; };
    BATON_CHECK(core_.open_jobs() == std::count_if(jobs_.begin(), jobs_.end(), licensed));
  }

  void Handle(const SendReply& action) {
    if (std::holds_alternative<FetchAccepted>(action.reply)) {
      accepted_ = action.stream;
    } else if (std::holds_alternative<FetchRenewed>(action.reply)) {
      said_.at(action.stream).renewed = clock_.Now();
      for (auto& [key, job] : jobs_) {
        if (job.reader == action.stream) job.read.renewed = clock_.Now();
      }
    } else {
      Job& job = jobs_.at(computing_);
      BATON_CHECK(job.reader == action.stream) << "a reader without a licence is told of blocks";
      if (const auto* ready = std::get_if<BlocksReady>(&action.reply)) Announced(job, *ready);
      if (const auto* begun = std::get_if<BlocksBegun>(&action.reply)) {
        BATON_CHECK(job.read.open.takes_begun) << "a reader is told what it does not know";
        Announced(job, *begun);
      }
    }
  }
  template <typename Blocks>
  static void Announced(Job& job, const Blocks& announced) {
    job.announced = true;
    for (const auto& block : announced.blocks) {
      BATON_CHECK(block.index >= job.read.open.first_block && block.index < job.blocks) << block.index;
    }
  }
  void Handle(const CloseStream&) {}
  void Handle(const GrantLicence& action) {
    Job& job = jobs_.at(action.key);
    BATON_CHECK(!std::exchange(job.licensed, true)) << "two licences";
    if (job.solo) return;
    job.reader = std::exchange(accepted_, 0);
    job.read = said_.at(job.reader);
    const FetchOpen& open = job.read.open;
    BATON_CHECK(open.key == action.key && open.secret == job.rules.secret) << "a reader without the secret is served";
    if (job.rules.reader.has_value()) CheckTerms(job, open);
    BATON_CHECK(open.source == kSourceIncarnation && open.fingerprint == "same");
    BATON_CHECK(open.first_block >= 0 && open.lease_ms > 0 && open.lease_ms <= Options().max_lease_ms);
  }
  static void CheckTerms(const Job& job, const FetchOpen& open) {
    BATON_CHECK(open.terms.ok()) << "a reader without a capability is served";
    const CapabilityTerms& terms = *open.terms;
    const ExpectedReader& reader = *job.rules.reader;
    BATON_CHECK(terms.key == open.key && terms.source == kSourceIncarnation && terms.tenant == job.rules.tenant);
    BATON_CHECK(terms.membership == reader.membership && terms.first_block <= open.first_block);
    BATON_CHECK(reader.incarnation.is_zero() || terms.reader == reader.incarnation) << "another reader is served";
  }
  void Handle(const Revoke& action) {
    Job& job = jobs_.at(action.key);
    BATON_CHECK(!std::exchange(job.over, true)) << "revoked after its end";
    if (!job.licensed) jobs_.erase(action.key);
  }
  void Handle(const ReleaseBlocks& action) {
    const Job& job = jobs_.at(action.key);
    BATON_CHECK(job.licensed && job.over) << "blocks are released that the engine writes";
    BATON_CHECK(!access_.allowed.contains(job.rules.secret)) << "blocks are released that may still be read";
    if (job.announced && !job.released && !access_.stops_readers) {
      const KvSourceOptions options = Options();
      const int64_t lease_ms = std::max(job.read.open.lease_ms, options.min_lease_ms);
      BATON_CHECK(clock_.Now() >= After(job.read.renewed, lease_ms + options.grace_ms)) << "released under a lease";
    }
    jobs_.erase(action.key);
  }

  void EndAll() {
    for (const FetchStreamId stream : std::vector<FetchStreamId>(streams_)) CloseStreamOfReader(stream);
    for (uint64_t job = 1; job <= kJobs; ++job) core_.OnCancel(KeyOf(job), absl::CancelledError("end"));
    Settle();
    constexpr int kMaxTimers = 10'000;
    for (int i = 0; core_.NextTimer() != kNever; ++i) {
      BATON_CHECK(i < kMaxTimers) << "the source does not come to rest";
      clock_.Set(std::max(clock_.Now(), core_.NextTimer()));
      RunTimers();
      Settle();
    }
    BATON_CHECK(jobs_.empty()) << "a job is left";
  }

  FuzzInput& input_;
  ManualClock clock_;
  FakeBlockAccess access_;
  KvSource core_{Options(), clock_, access_};
  // The owner's view of its jobs.
  std::map<JobKey, Job> jobs_;
  std::map<FetchStreamId, Stream> said_;
  // The streams that are open.
  std::vector<FetchStreamId> streams_ = {1, 2, 3, 4, 5};
  FetchStreamId last_stream_ = kStreams;
  // The stream of the last FetchAccepted, whose licence follows.
  FetchStreamId accepted_ = 0;
  // The job of the last chunk.
  JobKey computing_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TESTING_FUZZED_SOURCE_H_
