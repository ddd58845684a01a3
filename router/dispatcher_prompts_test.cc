// Log-probabilities of a prompt: all of them come with output 0, once, whatever becomes of the attempts before it.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "router/dispatcher.h"
#include "router/testing/dispatcher_fixture.h"

namespace baton::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kScoredTokens = 5;

class DispatcherPromptsTest : public DispatcherTest {
 protected:
  void SubmitScored(uint64_t n, int max_tokens = 8) {
    auto job = std::make_shared<JobSpec>(*MakeJob(n, {.prompt_tokens = kScoredTokens, .max_tokens = max_tokens}));
    job->sampling.prompt_logprobs = 0;
    ASSERT_TRUE(dispatcher().Submit(std::move(job)).ok());
  }
  // Those of the tokens from `first` on; each has its place in its number.
  void Prompt(Side side, const JobKey& key, int first, int count, float attempt = 1) {
    WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kPrompt);
    update.first_prompt = first;
    for (int i = first; i < first + count; ++i) {
      update.prompt.push_back({.logprob = -attempt - static_cast<float>(i) / 8, .rank = i});
    }
    dispatcher().OnWorkerUpdate(side, key, update);
  }
  void Lose(uint64_t n) { dispatcher().OnWorkerLost(MakeWorkerId(n), kBroken); }
  // As Actions; keeps what is emitted of prompts.
  std::vector<std::string> ActionsWithPrompts() {
    std::vector<std::string> words;
    for (const DispatchAction& action : dispatcher().TakeActions()) {
      words.push_back(std::visit(ActionWords(), action));
      if (const auto* end = std::get_if<EndJob>(&action)) results_.push_back(end->result);
      const auto* const emit = std::get_if<EmitToken>(&action);
      if (emit != nullptr && emit->prompt != nullptr) prompts_.emplace_back(emit->token.index, *emit->prompt);
    }
    return words;
  }
  // One was emitted, whole, with output 0, of the attempt of this number.
  void ExpectPromptOf(float attempt) {
    ASSERT_EQ(prompts_.size(), 1u);
    EXPECT_EQ(prompts_[0].first, 0);
    ASSERT_EQ(prompts_[0].second.size(), static_cast<size_t>(kScoredTokens) - 1);
    for (int i = 1; i < kScoredTokens; ++i) {
      const PromptLogprob& each = prompts_[0].second[static_cast<size_t>(i) - 1];
      EXPECT_EQ(each.logprob, -attempt - static_cast<float>(i) / 8);
      EXPECT_EQ(each.rank, i);
    }
  }

  std::vector<std::pair<int32_t, std::vector<PromptLogprob>>> prompts_;
};

TEST_F(DispatcherPromptsTest, TheyComeWithTheFirstOutput) {
  Join(1, WorkerRole::kPrefill);
  SubmitScored(1, 1);
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 3);
  Prompt(kP, KeyOf(1), 4, 1);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("solo1 1/1"));
  Token(kP, KeyOf(1), 0, 70, FinishReason::kLength);
  Finished(kP, KeyOf(1));
  CallEnd(kP, KeyOf(1));
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:0=70", "1:OK"));
  ExpectPromptOf(1);
  ExpectNothingLeft();
}

TEST_F(DispatcherPromptsTest, AMixedWorkerGivesThemLikewise) {
  Join(1, WorkerRole::kMixed);
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Prompt(kD, KeyOf(1), 1, 4);
  Token(kD, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 1, 71, FinishReason::kStop);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("local1 1/1", "1:0=70", "1:1=71", "1:OK"));
  ExpectPromptOf(1);
}

TEST_F(DispatcherPromptsTest, AnAttemptThatFailsBeforeTheFirstOutputShowsNothingOfThem) {
  JoinPair();
  Join(3, WorkerRole::kPrefill);
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 4);
  Lose(1);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("P1 1/1", "D2 1/1", "-D2 1/1", "P3 1/2", "D2 1/2"));
  const JobKey second = KeyOf(1, 2);
  Started(kD, second);
  Started(kP, second);
  Prompt(kP, second, 1, 2, 2);
  Prompt(kP, second, 3, 2, 2);
  Token(kP, second, 0, 70);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:0=70"));
  ExpectPromptOf(2);
}

TEST_F(DispatcherPromptsTest, AnAttemptThatGoesOnAfterTheFirstOutputGivesNone) {
  JoinPair();
  Join(3, WorkerRole::kDecode);
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 4);
  Token(kP, KeyOf(1), 0, 70);
  ActionsWithPrompts();
  Lose(2);
  std::shared_ptr<const JobSpec> next;
  for (const DispatchAction& action : dispatcher().TakeActions()) {
    if (const auto* start = std::get_if<StartPrefill>(&action)) next = start->job;
  }
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->sampling.prompt_logprobs, -1);
  EXPECT_EQ(next->prompt_logprobs(), 0);
  const JobKey second = KeyOf(1, 2);
  Started(kD, second);
  Started(kP, second);
  Token(kP, second, 1, 71);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:1=71"));
  ExpectPromptOf(1);
}

TEST_F(DispatcherPromptsTest, OutputsOfDThatOvertakeThemWait) {
  JoinPair();
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 2);
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 1, 71);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("P1 1/1", "D2 1/1"));
  Prompt(kP, KeyOf(1), 3, 2);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:0=70", "1:1=71"));
  ExpectPromptOf(1);
  Token(kP, KeyOf(1), 0, 70);
  Finished(kP, KeyOf(1));
  CallEnd(kP, KeyOf(1));
  Token(kD, KeyOf(1), 2, 72, FinishReason::kStop);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:2=72", "1:OK"));
  ExpectNothingLeft();
}

TEST_F(DispatcherPromptsTest, ADThatIsDoneBeforeThemEndsTheJobWithThem) {
  JoinPair();
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  Token(kD, KeyOf(1), 1, 71, FinishReason::kStop);
  Finished(kD, KeyOf(1));
  CallEnd(kD, KeyOf(1));
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("P1 1/1", "D2 1/1"));
  Prompt(kP, KeyOf(1), 1, 4);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:0=70", "1:1=71", "-P1 1/1", "1:OK"));
  ExpectPromptOf(1);
  EXPECT_EQ(LastResult().decode.compute_ns, 22);
  CallEnd(kP, KeyOf(1), kCancelledCall);
  ExpectNothingLeft();
}

TEST_F(DispatcherPromptsTest, ALostPTakesThemAlongAlsoWhereDHasTheKv) {
  JoinPair();
  Join(3, WorkerRole::kPrefill);
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 2);
  Committed(KeyOf(1));
  Token(kD, KeyOf(1), 0, 70);
  Lose(1);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("P1 1/1", "D2 1/1", "-D2 1/1", "P3 1/2", "D2 1/2"));
  const JobKey second = KeyOf(1, 2);
  Started(kD, second);
  Started(kP, second);
  Prompt(kP, second, 1, 4, 2);
  Token(kP, second, 0, 75);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("1:0=75"));
  ExpectPromptOf(2);
}

TEST_F(DispatcherPromptsTest, WhatIsOutOfOrderEndsTheJob) {
  struct Wrong {
    Side side;
    int first;
    int count;
  };
  Join(1, WorkerRole::kPrefill);
  Join(2, WorkerRole::kDecode);
  uint64_t n = 0;
  for (const Wrong& wrong : {Wrong{kP, 2, 2}, Wrong{kP, 1, 1}, Wrong{kP, 3, 3}, Wrong{kD, 3, 1}}) {
    SCOPED_TRACE(n);
    SubmitScored(++n);
    Started(kD, KeyOf(n));
    Started(kP, KeyOf(n));
    Prompt(kP, KeyOf(n), 1, 2);
    Prompt(wrong.side, KeyOf(n), wrong.first, wrong.count);
    ActionsWithPrompts();
    EXPECT_EQ(LastResult().status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(LastResult().status.message()), HasSubstr("where those from 3 on were due"));
  }
  EXPECT_THAT(prompts_, IsEmpty());
}

TEST_F(DispatcherPromptsTest, AFirstOutputBeforeThemEndsTheJob) {
  JoinPair();
  SubmitScored(1);
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 3);
  Token(kP, KeyOf(1), 0, 70);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("P1 1/1", "D2 1/1", "-P1 1/1", "-D2 1/1", "1:INTERNAL"));
  EXPECT_THAT(std::string(LastResult().status.message()), HasSubstr("after 3 of 4 log-probabilities"));
}

TEST_F(DispatcherPromptsTest, NobodyIsToldOfThoseThatNobodyAskedFor) {
  JoinPair();
  Submit(1, {.prompt_tokens = kScoredTokens});
  Started(kD, KeyOf(1));
  Started(kP, KeyOf(1));
  Prompt(kP, KeyOf(1), 1, 4);
  ActionsWithPrompts();
  EXPECT_EQ(LastResult().status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(prompts_, IsEmpty());
}

TEST_F(DispatcherPromptsTest, TheyGoPastWorkersOfAFormerVersion) {
  WorkerInfo former = MakeWorker(1, WorkerRole::kMixed);
  former.job_features = kAllJobFeatures & ~kFeatureOfPromptLogprobs;
  Join(former);
  SubmitScored(1, 1);
  EXPECT_THAT(ActionsWithPrompts(), IsEmpty());
  Join(2, WorkerRole::kMixed);
  EXPECT_THAT(ActionsWithPrompts(), ElementsAre("solo2 1/1"));
}

TEST_F(DispatcherPromptsTest, AnEmbeddingComesWithTheOutputOfAJobThatAsksForItAndOfNoOther) {
  Join(1, WorkerRole::kMixed);
  for (const bool asks : {false, true}) {
    for (const bool has : {false, true}) {
      const uint64_t n = 1 + (asks ? 2 : 0) + (has ? 1 : 0);
      auto job = std::make_shared<JobSpec>(*MakeJob(n, {.prompt_tokens = kScoredTokens, .max_tokens = 1}));
      job->sampling.pooling = asks ? Pooling::kLast : Pooling::kNone;
      ASSERT_TRUE(dispatcher().Submit(std::move(job)).ok());
      Started(kP, KeyOf(n));
      WorkerUpdate update = MakeUpdate(WorkerUpdate::Kind::kToken);
      update.token = {.index = 0, .token = 70, .finish = FinishReason::kLength};
      if (has) update.token.embedding = {0.5f, 2};
      dispatcher().OnWorkerUpdate(kP, KeyOf(n), update);
      if (asks == has) Finished(kP, KeyOf(n));
      CallEnd(kP, KeyOf(n));
      std::vector<float> emitted;
      for (const DispatchAction& action : dispatcher().TakeActions()) {
        if (const auto* emit = std::get_if<EmitToken>(&action)) emitted = emit->token.embedding;
        if (const auto* end = std::get_if<EndJob>(&action)) {
          EXPECT_EQ(end->result.status.code(), asks == has ? absl::StatusCode::kOk : absl::StatusCode::kInternal);
        }
      }
      EXPECT_EQ(emitted, asks && has ? update.token.embedding : std::vector<float>{});
    }
  }
  ExpectNothingLeft();
}

}  // namespace
}  // namespace baton::router
