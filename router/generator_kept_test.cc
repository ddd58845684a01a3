// Requests whose jobs outlive their calls, from end to end in memory: the adapter is a sink that keeps events, the
// worker is a script, the journal keeps what is written, and all that lies between them is the real thing.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "router/generator.h"
#include "router/testing/memory_sink.h"
#include "router/testing/scripted_loop_test.h"

namespace baton::router {
namespace {

constexpr JobId kJob = {.high = 3, .low = 4};

std::vector<int32_t> Bytes(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(modelfile::kTinyFirstByteToken + static_cast<uint8_t>(c));
  return tokens;
}

GenerationRequest AskToKeep(const std::string& text, const JobId& id = kJob, const std::string& key = "") {
  GenerationRequest request;
  request.id = id;
  request.prompt = TextPrompt{text};
  request.resumable = true;
  request.idempotency_key = key;
  return request;
}

// Writes at once, or when it is told to.
class FakeJournal final : public Journal {
 public:
  bool HasRoom() const override { return has_room_; }
  void Write(std::shared_ptr<const KeptRequest> request, OnWritten on_written) override {
    Note("request " + std::string(request->job->prompt.size(), '*'), std::move(on_written));
  }
  void WriteFingerprint(const JobId&, std::string fingerprint, OnWritten on_written) override {
    Note("fingerprint " + fingerprint, std::move(on_written));
  }
  void WriteResult(const JobId&, std::shared_ptr<const KeptResult> result, int64_t) override {
    Note("result " + result->text, nullptr);
  }
  void Erase(const JobId&) override { Note("erase", nullptr); }

  // Answers what has been asked for, and from now on at once.
  void Answer(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      answer_ = status;
      answers_ = true;
    }
    AnswerWaiting();
  }
  std::vector<std::string> written() const {
    absl::MutexLock lock(&mutex_);
    return written_;
  }
  bool has_room_ = true;

 private:
  void Note(std::string what, OnWritten on_written) {
    {
      absl::MutexLock lock(&mutex_);
      written_.push_back(std::move(what));
      if (on_written) waiting_.push_back(std::move(on_written));
    }
    AnswerWaiting();
  }
  // What is told may write more.
  void AnswerWaiting() {
    std::vector<OnWritten> waiting;
    absl::Status answer;
    {
      absl::MutexLock lock(&mutex_);
      if (!answers_) return;
      waiting = std::exchange(waiting_, {});
      answer = answer_;
    }
    for (const OnWritten& on_written : waiting) on_written(answer);
  }

  mutable absl::Mutex mutex_;
  std::vector<std::string> written_ ABSL_GUARDED_BY(mutex_);
  std::vector<OnWritten> waiting_ ABSL_GUARDED_BY(mutex_);
  bool answers_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
};

class GeneratorKeptTest : public ScriptedLoopTest {
 protected:
  ~GeneratorKeptTest() override { loop_.Stop(); }

  std::shared_ptr<MemorySink> Generate(GenerationRequest request) {
    auto sink = std::make_shared<MemorySink>();
    generator_.Generate(std::move(request), sink);
    return sink;
  }
  std::shared_ptr<MemorySink> Resume(int32_t next_index, const std::string& tenant = "") {
    auto sink = std::make_shared<MemorySink>();
    ResumeRequest request;
    request.id = {.high = 8, .low = ++last_call_};
    request.job = kJob;
    request.next_index = next_index;
    request.authenticated_tenant = tenant;
    generator_.Resume(std::move(request), sink);
    return sink;
  }
  static std::string TextOf(const std::vector<GenerationEvent>& events) {
    std::string text;
    for (const GenerationEvent& event : events) {
      if (const auto* delta = std::get_if<GenerationDelta>(&event)) text += delta->text;
    }
    return text;
  }
  static absl::Status StatusOf(const std::vector<GenerationEvent>& events) {
    const auto* failed = std::get_if<GenerationFailed>(&events.back());
    return failed == nullptr ? absl::OkStatus() : failed->status;
  }

  FakeJournal journal_;
  Generator generator_{model_, clock_, random_, loop_, {}, &journal_};
  uint64_t last_call_ = 0;
};

TEST_F(GeneratorKeptTest, ItIsWrittenBeforeItIsToldAndErasedByNobodyBeforeItsTime) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kLength});
  const auto events = Generate(AskToKeep("hi"))->WaitForEnd();
  EXPECT_TRUE(std::get<GenerationAccepted>(events.front()).is_kept);
  EXPECT_EQ(TextOf(events), "abc");
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).id, kJob);
  EXPECT_EQ(Jobs(), 0);
  EXPECT_EQ(journal_.written(), (std::vector<std::string>{"request **", "fingerprint f", "result abc"}));
}

TEST_F(GeneratorKeptTest, WhatTheJournalHasNotYetIsNotShown) {
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kNone});
  const auto sink = Generate(AskToKeep("hi"));
  while (worker_->started().empty()) Jobs();
  EXPECT_EQ(Jobs(), 1);
  EXPECT_TRUE(sink->WaitForEvents(0).empty());
  journal_.Answer(absl::OkStatus());
  EXPECT_EQ(TextOf(sink->WaitForEvents(2)), "abc");
}

TEST_F(GeneratorKeptTest, AJournalThatCannotBeWrittenEndsTheRequestAndItsJob) {
  journal_.Answer(absl::ResourceExhaustedError("disk full"));
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kNone});
  const auto events = Generate(AskToKeep("hi"))->WaitForEnd();
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(events))) << StatusOf(events);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(Jobs(), 0);
  GenerationRequest plain = AskToKeep("hi", {.high = 1, .low = 1});
  plain.resumable = false;
  EXPECT_EQ(TextOf(Generate(std::move(plain))->WaitForEvents(4)), "abc") << "others need no journal";
}

TEST_F(GeneratorKeptTest, AJournalThatIsBehindRefusesBeforeAnythingBegins) {
  journal_.has_room_ = false;
  StartLoop({.tokens = Bytes("abc")});
  EXPECT_TRUE(absl::IsResourceExhausted(StatusOf(Generate(AskToKeep("hi"))->WaitForEnd())));
  EXPECT_TRUE(worker_->started().empty());
  EXPECT_TRUE(journal_.written().empty());
}

TEST_F(GeneratorKeptTest, AClientThatIsGoneComesBackToItsRunningJob) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kNone});
  const auto first = Generate(AskToKeep("hi"));
  first->WaitForEvents(2);
  first->SetCancelled();
  generator_.Cancel(kJob);
  EXPECT_TRUE(absl::IsCancelled(StatusOf(first->WaitForEnd())));
  EXPECT_EQ(Jobs(), 1);
  EXPECT_EQ(TextOf(Resume(1)->WaitForEvents(2)), "bc");
  EXPECT_EQ(worker_->started().size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(StatusOf(Resume(1, "somebody else")->WaitForEnd())));
}

TEST_F(GeneratorKeptTest, ACallThatIsCancelledBeforeItResumesFollowsNothing) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kNone});
  Generate(AskToKeep("hi"))->WaitForEvents(2);
  auto sink = std::make_shared<MemorySink>();
  sink->SetCancelled();
  generator_.Resume({.id = {.high = 1, .low = 1}, .job = kJob}, sink);
  EXPECT_TRUE(absl::IsCancelled(StatusOf(sink->WaitForEnd())));
}

TEST_F(GeneratorKeptTest, AKeyLeadsToTheJobThatHasItAndNoSecondOneBegins) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kLength});
  Generate(AskToKeep("hi", kJob, "key"))->WaitForEnd();
  const auto events = Generate(AskToKeep("hi", {.high = 5, .low = 5}, "key"))->WaitForEnd();
  EXPECT_EQ(std::get<GenerationAccepted>(events.front()).id, kJob);
  EXPECT_TRUE(std::get<GenerationAccepted>(events.front()).follows);
  EXPECT_EQ(TextOf(events), "abc");
  EXPECT_EQ(worker_->started().size(), 1u);
  GenerationRequest other = AskToKeep("other", {.high = 6, .low = 6}, "key");
  other.body = {.high = 1, .low = 1};
  EXPECT_TRUE(absl::IsAlreadyExists(StatusOf(Generate(std::move(other))->WaitForEnd())));
}

TEST_F(GeneratorKeptTest, TheDeadlineOfACallIsNotItsJobs) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kNone});
  GenerationRequest request = AskToKeep("hi");
  request.deadline = After(clock_.Now(), 1'000);
  Generate(std::move(request))->WaitForEvents(2);
  EXPECT_EQ(worker_->started()[0]->deadline, kNever);
}

TEST_F(GeneratorKeptTest, AStopStringEndsAKeptJob) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("textENDmore"), .finish = FinishReason::kNone});
  GenerationRequest request = AskToKeep("hi");
  request.stop = {"END"};
  const auto events = Generate(std::move(request))->WaitForEnd();
  EXPECT_EQ(TextOf(events), "text");
  EXPECT_EQ(std::get<GenerationFinished>(events.back()).reason, FinishReason::kStop);
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(GeneratorKeptTest, ARecoveredJobRunsAgainAndItsClientGetsTheRest) {
  journal_.Answer(absl::OkStatus());
  auto spec = std::make_shared<JobSpec>();
  spec->id = kJob;
  spec->prompt = Bytes("hi");
  spec->sampling.seed = 42;
  JournaledJob job = {.id = kJob, .runs = 2, .fingerprint = "f"};
  job.request = {.job = spec, .model = model_.name, .stop = {"END"}};
  generator_.Recover({job});
  StartLoop({.tokens = Bytes("textENDmore"), .finish = FinishReason::kNone});
  const auto events = Resume(2)->WaitForEnd();
  EXPECT_EQ(TextOf(events), "xt") << "the stop string is looked for as before";
  const auto started = worker_->started();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0]->prompt, Bytes("hi"));
  EXPECT_EQ(started[0]->sampling.seed, 42u);
  EXPECT_EQ(started[0]->fingerprint, "f");
  EXPECT_EQ(started[0]->attempts_before, 2u << 16);
  EXPECT_TRUE(started[0]->is_recovered);
}

TEST_F(GeneratorKeptTest, ARecoveredJobWhoseClientMayHaveOutputsTakesNoOtherNumerics) {
  journal_.Answer(absl::OkStatus());
  const auto make = [&](uint64_t low, const std::string& fingerprint) {
    auto spec = std::make_shared<JobSpec>();
    spec->id = {.high = 3, .low = low};
    spec->prompt = Bytes("hi");
    spec->allows_other_numerics = true;
    JournaledJob job = {.id = spec->id, .runs = 1, .fingerprint = fingerprint};
    job.request = {.job = spec, .model = model_.name};
    return job;
  };
  generator_.Recover({make(1, "f"), make(2, "")});
  StartLoop({.tokens = Bytes("abc")});
  while (Jobs() > 0) {
  }
  for (const auto& job : worker_->started()) EXPECT_EQ(job->allows_other_numerics, job->fingerprint.empty());
  EXPECT_EQ(worker_->started().size(), 2u);
}

TEST_F(GeneratorKeptTest, AJobWhoseOutputsNobodyGivesAgainIsErasedAndItsClientToldWhy) {
  journal_.Answer(absl::OkStatus());
  auto spec = std::make_shared<JobSpec>();
  spec->id = kJob;
  spec->prompt = Bytes("hi");
  JournaledJob job = {.id = kJob, .runs = 1, .fingerprint = kSeveralFingerprints};
  job.request = {.job = spec, .model = model_.name};
  generator_.Recover({job});
  StartLoop({.tokens = Bytes("abc")});
  EXPECT_EQ(Jobs(), 0);
  EXPECT_EQ(journal_.written(), std::vector<std::string>{"erase"});
  const absl::Status told = StatusOf(Resume(2)->WaitForEnd());
  EXPECT_TRUE(absl::IsUnavailable(told) && absl::StrContains(told.message(), "unequal numerics")) << told;
}

TEST_F(GeneratorKeptTest, WhatTheServedModelCannotGoOnWithAndWhatMayEndRoutersIsErasedAndItsClientToldWhy) {
  journal_.Answer(absl::OkStatus());
  const auto make = [&](uint64_t low, const std::string& model, int32_t token) {
    auto spec = std::make_shared<JobSpec>();
    spec->id = {.high = 3, .low = low};
    spec->prompt = {token};
    JournaledJob job = {.id = spec->id};
    job.request = {.job = spec, .model = model};
    return job;
  };
  JournaledJob deadly = make(kJob.low, model_.name, 1);
  deadly.runs = 17;
  deadly.fingerprint = "f";
  generator_.Recover({make(1, "another model", 1), make(2, model_.name, model_.config.vocab_size), deadly});
  StartLoop({.tokens = Bytes("abc")});
  EXPECT_EQ(Jobs(), 0);
  EXPECT_EQ(journal_.written(), (std::vector<std::string>{"erase", "erase", "erase"}));
  for (const int32_t had : {0, 5}) {
    const absl::Status told = StatusOf(Resume(had)->WaitForEnd());
    EXPECT_TRUE(absl::IsInternal(told) && absl::StrContains(told.message(), "16 routers")) << told;
  }
}

TEST_F(GeneratorKeptTest, AJobThatADrainCutsStaysInTheJournal) {
  journal_.Answer(absl::OkStatus());
  StartLoop({.tokens = Bytes("abc"), .finish = FinishReason::kNone});
  const auto sink = Generate(AskToKeep("hi"));
  sink->WaitForEvents(2);
  EXPECT_EQ(loop_.Drain(1).size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(sink->WaitForEnd())));
  EXPECT_EQ(journal_.written(), (std::vector<std::string>{"request **", "fingerprint f"}));
}

}  // namespace
}  // namespace baton::router
