#include "router/live_jobs.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "router/testing/memory_sink.h"

namespace baton::router {
namespace {

constexpr int64_t kRetentionMs = 1'000;
constexpr int64_t kUnfollowedMs = 300;

// A client that takes so many tokens, and more later.
class SlowSink final : public GenerationSink {
 public:
  bool Write(GenerationEvent event) override {
    if (const auto* delta = std::get_if<GenerationDelta>(&event)) {
      EXPECT_LE(delta->tokens.size(), room_);
      room_ -= delta->tokens.size();
      tokens_ += delta->tokens.size();
      text_ += delta->text;
    }
    ended_ |= std::holds_alternative<GenerationFinished>(event);
    if (const auto* failed = std::get_if<GenerationFailed>(&event)) failure_ = failed->status;
    return true;
  }
  bool HasRoom(const GenerationDelta& delta) const override { return delta.tokens.size() <= room_; }
  bool cancelled() const override { return false; }

  size_t room_ = 0;
  size_t tokens_ = 0;
  std::string text_;
  bool ended_ = false;
  absl::Status failure_;
};

class LiveJobsTest : public ::testing::Test {
 protected:
  void Make(LiveJobsOptions options) {
    options.retention_ms = kRetentionMs;
    options.unfollowed_ms = kUnfollowedMs;
    jobs_ = std::make_unique<LiveJobs>(options);
  }
  void WithJournal() { Make({.has_journal = true}); }

  static JobId Id(uint64_t number) { return {.high = 7, .low = number}; }
  static KeptRequest Request(uint64_t number, std::string key = "", uint64_t body = 1, std::string owner = "") {
    auto spec = std::make_shared<JobSpec>();
    spec->id = Id(number);
    spec->prompt = {1, 2, 3};
    spec->tenant = owner;
    spec->sampling.seed = 42;
    return {.job = std::move(spec),
            .model = "m",
            .owner = std::move(owner),
            .idempotency_key = std::move(key),
            .body = {.high = 0, .low = body}};
  }
  // A new job with the call of its own number as its follower.
  std::shared_ptr<MemorySink> Begin(KeptRequest request) {
    const JobId id = request.job->id;
    EXPECT_TRUE(jobs_->PrepareRoom(request).ok());
    jobs_->Begin(std::move(request), now_);
    return Join(id, id);
  }
  std::shared_ptr<MemorySink> Join(const JobId& job, const Id128& call) {
    auto sink = std::make_shared<MemorySink>();
    EXPECT_TRUE(jobs_->Join(job, {.call = call, .sink = sink}, now_).ok());
    return sink;
  }
  static Id128 Call(uint64_t number) { return {.high = 9, .low = number}; }
  absl::Status Resume(uint64_t job, int32_t next_index, std::shared_ptr<GenerationSink> sink,
                      std::optional<int64_t> text_bytes = std::nullopt, std::string owner = "") {
    return jobs_->Resume({.id = Call(++last_resume_),
                          .job = Id(job),
                          .next_index = next_index,
                          .text_bytes = text_bytes,
                          .authenticated_tenant = std::move(owner)},
                         std::move(sink), now_);
  }
  // Outputs "a", "b", ... of the job. Those of several fingerprints are labelled.
  void Output(uint64_t job, int count, const std::string& fingerprint = "f") {
    for (int i = 0; i < count; ++i) {
      const int32_t index = next_[job]++;
      jobs_->OnToken(Id(job),
                     {.index = index, .token = 100 + index, .other_numerics = fingerprint == kSeveralFingerprints},
                     std::string(1, static_cast<char>('a' + index % 26)), fingerprint, now_);
    }
  }
  void Finish(uint64_t job, const std::string& tail = "", const std::string& fingerprint = "f") {
    GenerationFinished finished;
    finished.id = Id(job);
    finished.usage.output_tokens = next_[job];
    jobs_->OnFinished(Id(job), tail, std::move(finished), fingerprint, now_);
  }
  void Fail(uint64_t job, const absl::Status& why) { jobs_->OnFailed(Id(job), why, nullptr, now_); }
  void PassMs(int64_t ms) {
    now_ = After(now_, ms);
    jobs_->OnTimer(now_);
  }

  static std::string TextOf(const std::vector<GenerationEvent>& events) {
    std::string text;
    for (const GenerationEvent& event : events) {
      if (const auto* delta = std::get_if<GenerationDelta>(&event)) text += delta->text;
    }
    return text;
  }
  static std::vector<int32_t> IndicesOf(const std::vector<GenerationEvent>& events) {
    std::vector<int32_t> indices;
    for (const GenerationEvent& event : events) {
      const auto* delta = std::get_if<GenerationDelta>(&event);
      if (delta == nullptr) continue;
      for (const OutputToken& token : delta->tokens) {
        EXPECT_EQ(token.token, 100 + token.index);
        indices.push_back(token.index);
      }
    }
    return indices;
  }
  static std::vector<GenerationEvent> All(const std::shared_ptr<MemorySink>& sink) { return sink->WaitForEvents(0); }
  static absl::Status FailureOf(const std::shared_ptr<MemorySink>& sink) {
    const auto events = All(sink);
    const auto* failed = events.empty() ? nullptr : std::get_if<GenerationFailed>(&events.back());
    return failed == nullptr ? absl::OkStatus() : failed->status;
  }
  static bool HasEnd(const std::shared_ptr<MemorySink>& sink) {
    const auto events = All(sink);
    return !events.empty() && std::holds_alternative<GenerationFinished>(events.back());
  }
  // "request 1, fingerprint 1, ...": all actions since the last call.
  std::string Actions() {
    std::string text;
    const auto add = [&](const char* what, const JobId& id) {
      text += (text.empty() ? "" : ", ") + std::string(what) + " " + std::to_string(id.low);
    };
    for (const LiveJobAction& action : jobs_->TakeActions()) {
      if (const auto* a = std::get_if<WriteRequest>(&action)) add("request", a->request->job->id);
      if (const auto* a = std::get_if<WriteFingerprint>(&action))
        add(a->fingerprint == "f" ? "fingerprint" : "several", a->id);
      if (const auto* a = std::get_if<WriteResult>(&action)) add("result", a->id);
      if (const auto* a = std::get_if<EraseRecord>(&action)) add("erase", a->id);
      if (const auto* a = std::get_if<CancelJob>(&action)) add("cancel", a->id);
    }
    return text;
  }

  std::unique_ptr<LiveJobs> jobs_ =
      std::make_unique<LiveJobs>(LiveJobsOptions{.retention_ms = kRetentionMs, .unfollowed_ms = kUnfollowedMs});
  TimeNs now_ = After(0, 1'000'000);
  std::map<uint64_t, int32_t> next_;
  uint64_t last_resume_ = 1'000;
};

TEST_F(LiveJobsTest, ItsCallHearsOfAJobWhatItWouldHearOfAnyOther) {
  const auto sink = Begin(Request(1));
  ASSERT_EQ(All(sink).size(), 1u);
  const auto accepted = std::get<GenerationAccepted>(All(sink)[0]);
  EXPECT_EQ(accepted.id, Id(1));
  EXPECT_EQ(accepted.seed, 42u);
  EXPECT_EQ(accepted.prompt_tokens, 3);
  EXPECT_TRUE(accepted.is_kept);
  EXPECT_FALSE(accepted.follows);
  Output(1, 3);
  Finish(1, "!");
  EXPECT_EQ(TextOf(All(sink)), "abc!");
  EXPECT_EQ(IndicesOf(All(sink)), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(HasEnd(sink));
  EXPECT_EQ(Actions(), "") << "there is no journal";
}

TEST_F(LiveJobsTest, ARequestWithTheSameKeyFollowsTheRunningJobAndGetsTheResultOfOneThatHasEnded) {
  Begin(Request(1, "key"));
  Output(1, 2);
  EXPECT_EQ(**jobs_->FindKey(Request(2, "key")), Id(1));
  const auto second = Join(Id(1), Call(2));
  EXPECT_TRUE(std::get<GenerationAccepted>(All(second)[0]).follows);
  EXPECT_EQ(std::get<GenerationAccepted>(All(second)[0]).id, Id(1));
  Output(1, 1);
  Finish(1);
  EXPECT_EQ(TextOf(All(second)), "abc");
  EXPECT_TRUE(HasEnd(second));
  const auto third = Join(Id(1), Call(3));
  EXPECT_EQ(TextOf(All(third)), "abc");
  EXPECT_TRUE(HasEnd(third));
  EXPECT_EQ(jobs_->counts().joined, 2);
}

TEST_F(LiveJobsTest, AKeyOfAnotherBodyIsRefusedAndThatOfAnotherTenantIsAnotherKey) {
  Begin(Request(1, "key", /*body=*/1, "alice"));
  const absl::Status refused = jobs_->FindKey(Request(2, "key", /*body=*/2, "alice")).status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_EQ(GetFieldError(refused)->field, "idempotency_key");
  EXPECT_FALSE(jobs_->FindKey(Request(2, "key", /*body=*/1, "bob"))->has_value());
  EXPECT_FALSE(jobs_->FindKey(Request(2, "other", /*body=*/1, "alice"))->has_value());
  EXPECT_FALSE(jobs_->FindKey(Request(2, "", /*body=*/1, "alice"))->has_value());
}

TEST_F(LiveJobsTest, ACallResumesAtAnyIndexWithTheTextOfTheTokensThatItGets) {
  Begin(Request(1));
  Output(1, 4);
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 2, sink).ok());
  EXPECT_EQ(IndicesOf(All(sink)), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(TextOf(All(sink)), "cd");
  Output(1, 1);
  Finish(1, "!");
  EXPECT_EQ(IndicesOf(All(sink)), (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(TextOf(All(sink)), "cde!");
  EXPECT_TRUE(HasEnd(sink));
}

TEST_F(LiveJobsTest, ACallThatSaysWhichTextItHasGetsTheRestOfIt) {
  Begin(Request(1));
  Output(1, 3);
  Finish(1, "!?");
  for (const auto& [bytes, rest] :
       std::map<int64_t, std::string>{{0, "abc!?"}, {3, "!?"}, {4, "?"}, {5, ""}, {9, ""}}) {
    const auto sink = std::make_shared<MemorySink>();
    ASSERT_TRUE(Resume(1, 3, sink, bytes).ok());
    EXPECT_EQ(TextOf(All(sink)), rest) << bytes;
    EXPECT_TRUE(HasEnd(sink));
  }
}

TEST_F(LiveJobsTest, ACharacterIsNeverSentInParts) {
  Begin(Request(1));
  jobs_->OnToken(Id(1), {.index = 0, .token = 100}, "\u00e9t\u00e9", "f", now_);
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 0, sink, 1).ok());
  EXPECT_EQ(TextOf(All(sink)), "t\u00e9");
}

TEST_F(LiveJobsTest, WhatIsUnknownForeignOrForgottenIsNotFoundInTheSameWords) {
  Begin(Request(1, "", 1, "alice"));
  const auto sink = std::make_shared<MemorySink>();
  const absl::Status foreign = Resume(1, 0, sink, std::nullopt, "bob");
  EXPECT_TRUE(absl::IsNotFound(foreign)) << foreign;
  EXPECT_TRUE(absl::IsNotFound(Resume(1, 0, sink)));
  EXPECT_TRUE(absl::IsNotFound(Resume(2, 0, sink, std::nullopt, "bob")));
  EXPECT_TRUE(All(sink).empty());
  EXPECT_TRUE(Resume(1, 0, sink, std::nullopt, "alice").ok());
  Finish(1);
  PassMs(kRetentionMs);
  EXPECT_EQ(Resume(1, 0, sink, std::nullopt, "alice"), foreign) << "nothing tells the two apart";
}

TEST_F(LiveJobsTest, AnIndexBeyondTheEndIsRefused) {
  Begin(Request(1));
  Output(1, 2);
  const auto early = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 3, early).ok()) << "the job may still come so far";
  Finish(1);
  EXPECT_TRUE(absl::IsInvalidArgument(FailureOf(early))) << FailureOf(early);
  const auto late = std::make_shared<MemorySink>();
  EXPECT_EQ(GetFieldError(Resume(1, 3, late))->field, "next_index");
  EXPECT_EQ(GetFieldError(Resume(1, -1, late))->field, "next_index");
  EXPECT_EQ(GetFieldError(Resume(1, 0, late, -1))->field, "text_bytes");
  EXPECT_TRUE(Resume(1, 2, late).ok()) << "of what is left: the end";
  EXPECT_TRUE(HasEnd(late));
}

TEST_F(LiveJobsTest, AJobGoesOnWithoutItsClientForABoundedTime) {
  const auto sink = Begin(Request(1));
  EXPECT_FALSE(jobs_->Leave(Call(99), absl::CancelledError("gone"), now_));
  EXPECT_TRUE(jobs_->Leave(Id(1), absl::CancelledError("gone"), now_));
  EXPECT_TRUE(jobs_->Leave(Id(1), absl::CancelledError("gone"), now_)) << "whoever leaves twice ends no job";
  EXPECT_TRUE(absl::IsCancelled(FailureOf(sink)));
  Output(1, 2);
  PassMs(kUnfollowedMs - 1);
  const auto again = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 0, again).ok());
  EXPECT_EQ(TextOf(All(again)), "ab");
  EXPECT_TRUE(jobs_->Leave(Call(last_resume_), absl::CancelledError("gone"), now_));
  PassMs(kUnfollowedMs - 1);
  EXPECT_EQ(Actions(), "");
  PassMs(1);
  EXPECT_EQ(Actions(), "cancel 1");
  PassMs(kUnfollowedMs);
  EXPECT_EQ(Actions(), "") << "once is enough";
  EXPECT_EQ(jobs_->counts().unfollowed, 1);
}

TEST_F(LiveJobsTest, AJobThatFailedFreesItsKeyAndTellsWhoeverResumesIt) {
  const auto sink = Begin(Request(1, "key"));
  Output(1, 2);
  Fail(1, absl::InternalError("broken"));
  EXPECT_EQ(FailureOf(sink), absl::InternalError("broken"));
  EXPECT_FALSE(jobs_->FindKey(Request(2, "key"))->has_value());
  Begin(Request(2, "key"));
  const auto late = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 1, late).ok());
  EXPECT_EQ(TextOf(All(late)), "b");
  EXPECT_EQ(FailureOf(late), absl::InternalError("broken"));
  PassMs(kRetentionMs);
  EXPECT_EQ(**jobs_->FindKey(Request(3, "key")), Id(2)) << "the key is that of the second job";
}

TEST_F(LiveJobsTest, ASlowReaderWaitsAndIsCutWhenItsJobIsForgotten) {
  Begin(Request(1));
  const auto slow = std::make_shared<SlowSink>();
  ASSERT_TRUE(Resume(1, 0, slow).ok());
  Output(1, 1'000);
  Finish(1);
  EXPECT_EQ(slow->tokens_, 0u);
  slow->room_ = 600;
  PassMs(1);
  EXPECT_GT(slow->tokens_, 300u);
  EXPECT_FALSE(slow->ended_);
  const auto quick = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 0, quick).ok());
  EXPECT_TRUE(HasEnd(quick));
  PassMs(kRetentionMs);
  EXPECT_EQ(GetRefusalReason(slow->failure_), RefusalReason::kSlowReader);
}

TEST_F(LiveJobsTest, ASlowReaderThatReadsOnMissesNothing) {
  Begin(Request(1));
  const auto slow = std::make_shared<SlowSink>();
  ASSERT_TRUE(Resume(1, 0, slow).ok());
  Output(1, 1'000);
  Finish(1, "!");
  for (int i = 0; i < 10 && !slow->ended_; ++i) {
    slow->room_ = 300;
    PassMs(1);
  }
  EXPECT_TRUE(slow->ended_);
  EXPECT_EQ(slow->tokens_, 1'000u);
  EXPECT_EQ(slow->text_.size(), 1'001u);
}

TEST_F(LiveJobsTest, TheJobOfTheTenantWithTheMostGoesFirstAndARunningOneNever) {
  Make({.max_jobs = 4});
  for (const uint64_t job : {1, 2, 3}) Begin(Request(job, "", 1, job == 1 ? "alice" : "bob"));
  Begin(Request(4, "", 1, "bob"));
  for (const uint64_t job : {1, 3, 4}) Finish(job);
  const auto is_kept = [&](uint64_t job) {
    return Resume(job, 0, std::make_shared<MemorySink>(), std::nullopt, job == 1 ? "alice" : "bob").ok();
  };
  Begin(Request(5, "", 1, "carol"));
  EXPECT_FALSE(is_kept(3)) << "the first of bob's that has ended";
  EXPECT_TRUE(is_kept(1) && is_kept(2) && is_kept(4));
  Begin(Request(6, "", 1, "carol"));
  Begin(Request(7, "", 1, "carol"));
  EXPECT_TRUE(is_kept(2));
  EXPECT_TRUE(absl::IsResourceExhausted(jobs_->PrepareRoom(Request(8))));
  EXPECT_EQ(jobs_->counts().evicted, 3);
  EXPECT_EQ(jobs_->counts().running, 4);
}

TEST_F(LiveJobsTest, BytesAreBoundedToo) {
  Make({.max_bytes = 64 << 10});
  Begin(Request(1));
  Output(1, 2'000);
  EXPECT_GT(jobs_->counts().bytes, 64 << 10);
  EXPECT_TRUE(absl::IsResourceExhausted(jobs_->PrepareRoom(Request(2))));
  Finish(1);
  EXPECT_TRUE(jobs_->PrepareRoom(Request(2)).ok());
  EXPECT_EQ(jobs_->counts().bytes, 0);
}

// As a router has them.

TEST_F(LiveJobsTest, ByDefaultAJobThatNobodyFollowsRunsUpToItsBound) {
  jobs_ = std::make_unique<LiveJobs>(LiveJobsOptions());
  Begin(Request(1));
  EXPECT_TRUE(jobs_->Leave(Id(1), absl::CancelledError("gone"), now_));
  PassMs(kMaxUnfollowedMs - 1);
  EXPECT_EQ(Actions(), "");
  PassMs(1);
  EXPECT_EQ(Actions(), "cancel 1");
}

TEST_F(LiveJobsTest, ByDefaultAsManyJobsAreKeptAsTheBoundSaysAndNoMoreThatRun) {
  jobs_ = std::make_unique<LiveJobs>(LiveJobsOptions());
  for (uint64_t job = 1; job <= kMaxKeptJobs; ++job) Begin(Request(job));
  EXPECT_TRUE(absl::IsResourceExhausted(jobs_->PrepareRoom(Request(kMaxKeptJobs + 1))));
  EXPECT_EQ(jobs_->counts().evicted, 0);
}

TEST_F(LiveJobsTest, ByDefaultJobsTakeTheBoundInMemoryAndNotATokenMore) {
  jobs_ = std::make_unique<LiveJobs>(LiveJobsOptions());
  Begin(Request(1));
  const size_t bytes = static_cast<size_t>(jobs_->counts().bytes);
  KeptRequest second = Request(2);
  const size_t beside_prompt = bytes - second.job->prompt.size() * sizeof(int32_t);
  auto spec = std::make_shared<JobSpec>(*second.job);
  spec->prompt.assign((kMaxKeptBytes - bytes - beside_prompt) / sizeof(int32_t), 1);
  second.job = spec;
  EXPECT_TRUE(jobs_->PrepareRoom(second).ok());
  spec->prompt.push_back(1);
  EXPECT_TRUE(absl::IsResourceExhausted(jobs_->PrepareRoom(second)));
}

TEST_F(LiveJobsTest, AClientHearsNothingBeforeTheJournalHasIt) {
  WithJournal();
  const auto sink = Begin(Request(1));
  EXPECT_EQ(Actions(), "request 1");
  EXPECT_TRUE(All(sink).empty());
  jobs_->OnRequestWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(All(sink).size(), 1u) << "it is accepted";
  Output(1, 2);
  EXPECT_EQ(Actions(), "fingerprint 1");
  EXPECT_EQ(All(sink).size(), 1u);
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "ab");
  Output(1, 1);
  EXPECT_EQ(TextOf(All(sink)), "abc");
  Finish(1);
  EXPECT_TRUE(HasEnd(sink));
  EXPECT_EQ(Actions(), "result 1");
  PassMs(kRetentionMs);
  EXPECT_EQ(Actions(), "erase 1");
}

TEST_F(LiveJobsTest, AJobThatIsFasterThanTheJournalIsToldOnceThatHasAll) {
  WithJournal();
  const auto sink = Begin(Request(1));
  Output(1, 1, "");
  Finish(1, "", "f");
  EXPECT_EQ(Actions(), "request 1, result 1");
  EXPECT_TRUE(All(sink).empty());
  jobs_->OnRequestWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(Actions(), "fingerprint 1");
  EXPECT_EQ(All(sink).size(), 1u);
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "a");
  EXPECT_TRUE(HasEnd(sink));
}

TEST_F(LiveJobsTest, AnOutputOfOtherNumericsIsShownOnceTheJournalHasThatNobodyGivesItAgain) {
  WithJournal();
  const auto sink = Begin(Request(1));
  jobs_->OnRequestWritten(Id(1), absl::OkStatus(), now_);
  Output(1, 2);
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(Actions(), "request 1, fingerprint 1");
  Output(1, 2, kSeveralFingerprints);
  EXPECT_EQ(Actions(), "several 1");
  EXPECT_EQ(TextOf(All(sink)), "ab");
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "abcd");
  Output(1, 1, kSeveralFingerprints);
  Finish(1, "", "g");
  EXPECT_EQ(Actions(), "result 1") << "it is known already";
  EXPECT_TRUE(HasEnd(sink));
}

TEST_F(LiveJobsTest, AJobThatChangesItsNumericsFasterThanTheJournalWritesIsToldOnceThatHasAll) {
  WithJournal();
  const auto sink = Begin(Request(1));
  jobs_->OnRequestWritten(Id(1), absl::OkStatus(), now_);
  Output(1, 1);
  Output(1, 1, kSeveralFingerprints);
  EXPECT_EQ(Actions(), "request 1, fingerprint 1, several 1");
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "");
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "ab");

  const auto other = Begin(Request(2));
  Output(2, 1);
  Output(2, 1, kSeveralFingerprints);
  EXPECT_EQ(Actions(), "request 2");
  jobs_->OnRequestWritten(Id(2), absl::OkStatus(), now_);
  EXPECT_EQ(Actions(), "several 2");
  jobs_->OnFingerprintWritten(Id(2), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(other)), "ab");
}

TEST_F(LiveJobsTest, WhatTheJournalCannotWriteEndsTheJobAndShowsNothingOfIt) {
  WithJournal();
  const auto first = Begin(Request(1, "key"));
  jobs_->OnRequestWritten(Id(1), absl::ResourceExhaustedError("disk full"), now_);
  EXPECT_EQ(Actions(), "request 1, cancel 1");
  Fail(1, absl::CancelledError("cancelled"));
  EXPECT_TRUE(absl::IsUnavailable(FailureOf(first))) << FailureOf(first);
  EXPECT_EQ(All(first).size(), 1u);
  EXPECT_FALSE(jobs_->FindKey(Request(2, "key"))->has_value());

  const auto second = Begin(Request(2));
  jobs_->OnRequestWritten(Id(2), absl::OkStatus(), now_);
  Output(2, 1);
  jobs_->OnFingerprintWritten(Id(2), absl::ResourceExhaustedError("disk full"), now_);
  Fail(2, absl::CancelledError("cancelled"));
  EXPECT_TRUE(absl::IsUnavailable(FailureOf(second)));
  EXPECT_EQ(TextOf(All(second)), "");

  const auto third = Begin(Request(3));
  Output(3, 1);
  Finish(3);
  Actions();
  jobs_->OnRequestWritten(Id(3), absl::ResourceExhaustedError("disk full"), now_);
  EXPECT_TRUE(absl::IsUnavailable(FailureOf(third))) << "also when it has ended already";
  PassMs(kRetentionMs);
  EXPECT_EQ(Actions(), "") << "it was never in the journal";
}

TEST_F(LiveJobsTest, AnEndThatOvertakesItsCancellationIsNoEndWhereTheJournalCouldNotWrite) {
  WithJournal();
  const auto first = Begin(Request(1, "key"));
  Output(1, 1);
  jobs_->OnRequestWritten(Id(1), absl::ResourceExhaustedError("disk full"), now_);
  Finish(1);
  EXPECT_TRUE(absl::IsUnavailable(FailureOf(first))) << FailureOf(first);
  EXPECT_EQ(All(first).size(), 1u);
  EXPECT_EQ(Actions(), "request 1, cancel 1") << "the journal has nothing of it";
  EXPECT_FALSE(jobs_->FindKey(Request(2, "key"))->has_value());

  const auto second = Begin(Request(2));
  jobs_->OnRequestWritten(Id(2), absl::OkStatus(), now_);
  Output(2, 1);
  jobs_->OnFingerprintWritten(Id(2), absl::ResourceExhaustedError("disk full"), now_);
  Finish(2);
  EXPECT_TRUE(absl::IsUnavailable(FailureOf(second))) << FailureOf(second);
  EXPECT_EQ(TextOf(All(second)), "");
  EXPECT_EQ(Actions(), "request 2, fingerprint 2, cancel 2, erase 2");
}

TEST_F(LiveJobsTest, AJobThatHasEndedIsNotForgottenBeforeTheJournalLetsItsClientsHearOfIt) {
  WithJournal();
  const auto sink = Begin(Request(1));
  Output(1, 1);
  Finish(1);
  PassMs(kRetentionMs);
  EXPECT_TRUE(All(sink).empty());
  jobs_->OnRequestWritten(Id(1), absl::OkStatus(), now_);
  PassMs(kRetentionMs);
  EXPECT_EQ(Actions(), "request 1, result 1, fingerprint 1");
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "a");
  EXPECT_TRUE(HasEnd(sink));
  PassMs(0);
  EXPECT_EQ(Actions(), "erase 1");
}

TEST_F(LiveJobsTest, AFailedJobLeavesTheJournalUnlessTheRouterEnds) {
  WithJournal();
  Begin(Request(1));
  Begin(Request(2));
  Actions();
  Fail(1, absl::UnavailableError("no workers"));
  EXPECT_EQ(Actions(), "erase 1");
  Fail(2, WithReason(absl::UnavailableError("the router is shutting down"), RefusalReason::kDraining));
  EXPECT_EQ(Actions(), "");
}

TEST_F(LiveJobsTest, ARestoredJobIsFollowedFromTheIndexThatItsClientHas) {
  WithJournal();
  jobs_->Restore({.id = Id(1), .request = Request(1, "key"), .fingerprint = "f"}, 0, now_);
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 2, sink).ok());
  Output(1, 2);
  EXPECT_EQ(All(sink).size(), 1u) << "the client has these";
  Output(1, 1);
  EXPECT_EQ(IndicesOf(All(sink)), std::vector<int32_t>{2});
  EXPECT_EQ(TextOf(All(sink)), "c");
  Finish(1);
  EXPECT_TRUE(HasEnd(sink));
  EXPECT_EQ(Actions(), "result 1") << "its request and its fingerprint are there";
  EXPECT_EQ(**jobs_->FindKey(Request(2, "key")), Id(1));
}

TEST_F(LiveJobsTest, AJobOfTheJournalThatDoesNotRunAgainTellsItsClientsWhyWhateverTheyHave) {
  WithJournal();
  jobs_->RestoreFailed({.id = Id(1), .request = Request(1, "key"), .fingerprint = "f"}, absl::InternalError("given up"),
                       now_);
  EXPECT_EQ(Actions(), "erase 1");
  for (const int32_t had : {0, 7}) {
    const auto sink = std::make_shared<MemorySink>();
    ASSERT_TRUE(Resume(1, had, sink).ok());
    EXPECT_EQ(FailureOf(sink), absl::InternalError("given up"));
  }
  EXPECT_FALSE(jobs_->FindKey(Request(2, "key"))->has_value()) << "its key is free";
  PassMs(kRetentionMs);
  EXPECT_TRUE(absl::IsNotFound(Resume(1, 0, std::make_shared<MemorySink>())));
}

TEST_F(LiveJobsTest, ARestoredJobThatNobodyHasSeenStillNeedsItsFingerprint) {
  WithJournal();
  jobs_->Restore({.id = Id(1), .request = Request(1)}, 0, now_);
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 0, sink).ok());
  Output(1, 1);
  EXPECT_EQ(Actions(), "fingerprint 1");
  EXPECT_EQ(TextOf(All(sink)), "");
  jobs_->OnFingerprintWritten(Id(1), absl::OkStatus(), now_);
  EXPECT_EQ(TextOf(All(sink)), "a");
}

TEST_F(LiveJobsTest, ARestoredResultHasTheRestOfItsTime) {
  WithJournal();
  auto result = std::make_shared<KeptResult>();
  result->outputs = {{.token = {.index = 0, .token = 100}, .text_end = 1}};
  result->text = "a";
  jobs_->Restore({.id = Id(1), .request = Request(1), .fingerprint = "f", .result = result},
                 After(now_, 1 - kRetentionMs), now_);
  const auto sink = std::make_shared<MemorySink>();
  ASSERT_TRUE(Resume(1, 0, sink).ok());
  EXPECT_EQ(TextOf(All(sink)), "a");
  EXPECT_TRUE(HasEnd(sink));
  EXPECT_EQ(jobs_->counts().ended, 1);
  PassMs(1);
  EXPECT_EQ(Actions(), "erase 1");
}

TEST_F(LiveJobsTest, ARestoredJobThatNoClientComesBackToIsCancelled) {
  WithJournal();
  jobs_->Restore({.id = Id(1), .request = Request(1), .fingerprint = "f"}, 0, now_);
  PassMs(kUnfollowedMs - 1);
  EXPECT_EQ(Actions(), "");
  PassMs(1);
  EXPECT_EQ(Actions(), "cancel 1");
}

}  // namespace
}  // namespace baton::router
