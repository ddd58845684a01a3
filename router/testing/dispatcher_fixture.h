// A dispatcher on a clock that stands still, and short words for its events and actions. For tests.
#ifndef BATON_ROUTER_TESTING_DISPATCHER_FIXTURE_H_
#define BATON_ROUTER_TESTING_DISPATCHER_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/random.h"
#include "common/testing/manual_clock.h"
#include "gtest/gtest.h"
#include "router/dispatcher.h"

namespace baton::router {

inline const absl::Status kCancelledCall = absl::CancelledError("the router cancelled");
inline const absl::Status kBroken = absl::UnavailableError("connection reset");

inline WorkerId MakeWorkerId(uint64_t n) { return {.high = 1, .low = n}; }
inline Incarnation MakeIncarnation(uint64_t n) { return {.high = 3, .low = n}; }

inline WorkerInfo MakeWorker(uint64_t n, WorkerRole role) {
  WorkerInfo info;
  info.id = MakeWorkerId(n);
  info.incarnation = MakeIncarnation(n);
  info.role = role;
  info.target = "host:" + std::to_string(n);
  info.fingerprint = "f";
  info.total_blocks = 100;
  info.max_sequences = 16;
  info.chunk_tokens = 64;
  info.context_length = 4096;
  return info;
}

struct JobShape {
  int prompt_tokens = 40;
  int max_tokens = 8;
  uint32_t choice = 0;
  std::optional<uint32_t> follows = std::nullopt;
  TimeNs deadline = kNever;
  bool want_kv_digest = false;
  std::string tenant = {};
  std::vector<TokenBias> logit_bias = {};
  bool allows_other_numerics = false;
};

inline std::shared_ptr<const JobSpec> MakeJob(uint64_t n, const JobShape& shape = {}) {
  auto spec = std::make_shared<JobSpec>();
  spec->id = {.high = 2, .low = n};
  spec->choice = shape.choice;
  spec->follows = shape.follows;
  spec->prompt.assign(static_cast<size_t>(shape.prompt_tokens), 7);
  spec->sampling.max_tokens = shape.max_tokens;
  spec->deadline = shape.deadline;
  spec->want_kv_digest = shape.want_kv_digest;
  spec->tenant = shape.tenant;
  spec->sampling.logit_bias = shape.logit_bias;
  spec->allows_other_numerics = shape.allows_other_numerics;
  return spec;
}

inline JobKey KeyOf(uint64_t n, uint32_t attempt = 1, uint32_t choice = 0) {
  return {.job = {.high = 2, .low = n}, .attempt = attempt, .choice = choice};
}

// Words of actions, in order: "P2 1/1" starts prefill of job 1, attempt 1 at worker 2; "solo2", "D", "local" likewise;
// "-P2 1/1" cancels; "move2 1/1->2" asks worker 2 to hand attempt 1 over to attempt 2, "keep2 1/1" takes that back;
// "end2" ends the membership of worker 2; "drain2" orders it to drain; "1:0=70" emits token 70 as output 0 of job 1;
// "1:0~70" likewise with the label of other numerics; "1:OK" ends it. Choice 2 of job 1 is "1.2". An attempt that goes
// on after 3 outputs ends with " after 3".
class ActionWords {
 public:
  std::string operator()(const StartPrefill& a) const {
    return (a.solo ? "solo" : "P") + At(a.worker, a.key) + After(*a.job);
  }
  std::string operator()(const StartDecode& a) const {
    return (a.local_prefill ? "local" : "D") + At(a.worker, a.key) + After(*a.job);
  }
  std::string operator()(const CancelAttempt& a) const {
    return (a.side == Side::kPrefill ? "-P" : "-D") + At(a.worker, a.key);
  }
  std::string operator()(const HandOverAttempt& a) const {
    if (a.hand_over.is_taken_back()) return "keep" + At(a.worker, a.key);
    return "move" + At(a.worker, a.key) + "->" + std::to_string(a.hand_over.next.attempt);
  }
  std::string operator()(const EndMembership& a) const { return "end" + std::to_string(a.worker.low); }
  std::string operator()(const DrainWorker& a) const { return "drain" + std::to_string(a.worker.low); }
  std::string operator()(const EmitToken& a) const {
    return Name(a.key) + ":" + std::to_string(a.token.index) + (a.token.other_numerics ? "~" : "=") +
           std::to_string(a.token.token);
  }
  std::string operator()(const EndJob& a) const {
    return Name(a.key) + ":" + absl::StatusCodeToString(a.result.status.code());
  }

 private:
  static std::string After(const JobSpec& job) {
    return job.emitted == 0 ? "" : " after " + std::to_string(job.emitted);
  }
  static std::string At(const WorkerId& worker, const JobKey& key) {
    return std::to_string(worker.low) + " " + Name(key.choice_key()) + "/" + std::to_string(key.attempt);
  }
  static std::string Name(const ChoiceKey& key) {
    return std::to_string(key.job.low) + (key.choice == 0 ? "" : "." + std::to_string(key.choice));
  }
};

class DispatcherTest : public ::testing::Test {
 protected:
  static constexpr Side kP = Side::kPrefill;
  static constexpr Side kD = Side::kDecode;

  Dispatcher& dispatcher() {
    if (!dispatcher_) dispatcher_ = std::make_unique<Dispatcher>(options_, clock_, random_);
    return *dispatcher_;
  }

  void Join(uint64_t n, WorkerRole role) { Join(MakeWorker(n, role)); }
  void Join(const WorkerInfo& info) { ASSERT_TRUE(dispatcher().OnWorkerJoin(info).ok()); }
  // Prefill worker 1, decode worker 2.
  void JoinPair() {
    Join(1, WorkerRole::kPrefill);
    Join(2, WorkerRole::kDecode);
  }
  void Submit(uint64_t n, const JobShape& shape = {}) { ASSERT_TRUE(dispatcher().Submit(MakeJob(n, shape)).ok()); }

  static WorkerUpdate MakeUpdate(WorkerUpdate::Kind kind) {
    WorkerUpdate update;
    update.kind = kind;
    return update;
  }
  void Started(Side side, const JobKey& key, int32_t cached_tokens = 0) {
    WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kStarted);
    update.cached_tokens = cached_tokens;
    dispatcher().OnWorkerUpdate(side, key, update);
  }
  void Committed(const JobKey& key) {
    dispatcher().OnWorkerUpdate(kD, key, MakeUpdate(WorkerUpdate::Kind::kKvCommitted));
  }
  void Token(Side side, const JobKey& key, int32_t index, int32_t token, FinishReason finish = FinishReason::kNone) {
    WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kToken);
    update.token = {.index = index, .token = token, .finish = finish, .logprob = -0.5f};
    dispatcher().OnWorkerUpdate(side, key, update);
  }
  void Finished(Side side, const JobKey& key, std::string digest = "") {
    Finished(side, key, side == kP ? 11 : 22, std::move(digest));
  }
  void Finished(Side side, const JobKey& key, int64_t compute_ns, std::string digest = "") {
    WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kFinished);
    update.kv_digest = std::move(digest);
    update.report.compute_ns = compute_ns;
    dispatcher().OnWorkerUpdate(side, key, update);
  }
  // Output 1 is D's last; its call ends well.
  void DecodeDone(const JobKey& key) {
    Token(kD, key, 1, 71, FinishReason::kStop);
    Finished(kD, key);
    CallEnd(kD, key);
  }
  void CallEnd(Side side, const JobKey& key, const absl::Status& status = absl::OkStatus()) {
    dispatcher().OnWorkerEnd(side, key, status);
  }
  void Refuse(Side side, const JobKey& key) { CallEnd(side, key, absl::ResourceExhaustedError("no room")); }
  // P has done its part for a pair, the attempt's first output is out.
  void PrefillDone(const JobKey& key, int32_t token, int32_t index = 0) {
    Started(kD, key);
    Started(kP, key);
    Token(kP, key, index, token);
    Finished(kP, key);
    CallEnd(kP, key);
  }

  void AdvanceMs(int64_t ms) { clock_.Advance(ms * kNsPerMs); }
  // Runs the timers due within the next `ms`.
  void RunMs(int64_t ms) {
    const TimeNs until = clock_.Now() + ms * kNsPerMs;
    while (dispatcher().NextTimer() <= until) {
      clock_.Set(std::max(clock_.Now(), dispatcher().NextTimer()));
      dispatcher().OnTimer();
      ASSERT_GT(dispatcher().NextTimer(), clock_.Now()) << "the loop would spin";
    }
    clock_.Set(until);
  }

  // Since the last call. Results of ended jobs are kept in `results_`.
  std::vector<std::string> Actions() {
    std::vector<std::string> words;
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      words.push_back(std::visit(ActionWords(), action));
      if (const auto* end = std::get_if<EndJob>(&action)) results_.push_back(end->result);
    }
    return words;
  }
  const JobResult& LastResult() {
    if (results_.empty()) {
      ADD_FAILURE() << "no job has ended";
      results_.emplace_back();
    }
    return results_.back();
  }

  // Nothing is left of any job.
  void ExpectNothingLeft() {
    EXPECT_EQ(dispatcher().queued_jobs(), 0);
    EXPECT_EQ(dispatcher().running_jobs(), 0);
    EXPECT_EQ(dispatcher().paused_jobs(), 0);
    EXPECT_EQ(dispatcher().open_calls(), 0);
    for (const auto& [id, assigned] : dispatcher().assigned()) {
      EXPECT_EQ(assigned.jobs, 0) << id.low;
      EXPECT_EQ(assigned.reserved_blocks, 0) << id.low;
      EXPECT_EQ(assigned.uncomputed_prompt_tokens, 0) << id.low;
    }
  }

  DispatcherOptions options_ = {.worker_silence_ms = 5'000};
  ManualClock clock_;
  SeededRandom random_{1};
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<JobResult> results_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_DISPATCHER_FIXTURE_H_
