// Requests for several choices from the generator down to a scripted worker, and the rules by which they end.
#include "router/choice_group.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/generator.h"
#include "router/pending_output.h"
#include "router/testing/memory_sink.h"
#include "router/testing/scripted_loop_test.h"

namespace baton::router {
namespace {

constexpr JobId kAsked = {.high = 3, .low = 4};
constexpr int32_t kA = modelfile::kTinyFirstByteToken + 'a';

class ChoiceGroupTest : public ScriptedLoopTest {
 protected:
  ~ChoiceGroupTest() override { loop_.Stop(); }

  static GenerationRequest Ask(int32_t choices) {
    GenerationRequest request;
    request.id = kAsked;
    request.prompt = TextPrompt{"hi"};
    request.sampling.seed = 42;
    request.choices = choices;
    return request;
  }
  std::vector<GenerationEvent> Generate(GenerationRequest request) {
    generator_.Generate(std::move(request), sink_);
    return sink_->WaitForEnd();
  }

  Generator generator_{model_, clock_, random_, loop_};
  std::shared_ptr<MemorySink> sink_ = std::make_shared<MemorySink>();
};

TEST_F(ChoiceGroupTest, EachChoiceHasAStreamAnEndAndASeedOfItsOwnAndTheRequestEndsOnce) {
  StartLoop({.tokens = {kA, kA + 1}, .finish = FinishReason::kLength});
  const auto events = Generate(Ask(3));
  EXPECT_EQ(std::get<GenerationAccepted>(events.front()).seed, 42u);
  std::vector<std::string> texts(3);
  std::vector<int> ends(3);
  for (size_t i = 1; i + 1 < events.size(); ++i) {
    const auto& delta = std::get<GenerationDelta>(events[i]);
    const auto choice = static_cast<size_t>(delta.choice);
    EXPECT_EQ(ends.at(choice), 0) << "nothing comes behind the end of a choice";
    texts.at(choice) += delta.text;
    ends.at(choice) += delta.end.has_value() ? 1 : 0;
  }
  EXPECT_EQ(texts, std::vector<std::string>({"ab", "ab", "ab"}));
  EXPECT_EQ(ends, std::vector<int>({1, 1, 1}));
  const auto& finished = std::get<GenerationFinished>(events.back());
  EXPECT_EQ(finished.choices.size(), 3u);
  EXPECT_EQ(finished.usage.prompt_tokens, 2);
  EXPECT_EQ(finished.usage.output_tokens, 6);
  EXPECT_EQ(finished.seed, 42u);
  std::set<uint64_t> seeds;
  for (const auto& job : worker_->started()) seeds.insert(job->sampling.seed);
  EXPECT_EQ(seeds, std::set<uint64_t>({42, 43, 44}));
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(ChoiceGroupTest, SeveralPromptsHaveTheirChoicesOneBehindTheOther) {
  StartLoop({.tokens = {kA}});
  GenerationRequest request = Ask(2);
  request.more_prompts = {TextPrompt{"hello"}, TextPrompt{"you"}};
  const auto events = Generate(std::move(request));
  EXPECT_EQ(std::get<GenerationAccepted>(events.front()).prompt_tokens, 2 + 5 + 3);
  const auto& finished = std::get<GenerationFinished>(events.back());
  EXPECT_EQ(finished.choices.size(), 6u);
  EXPECT_EQ(finished.usage.prompt_tokens, 2 + 5 + 3);
  EXPECT_EQ(finished.usage.output_tokens, 6);
  std::vector<std::string> jobs(6);
  for (const auto& job : worker_->started()) {
    jobs.at(job->choice) = absl::StrCat(job->prompt.size(), " tokens, seed ", job->sampling.seed);
  }
  EXPECT_EQ(jobs, std::vector<std::string>({"2 tokens, seed 42", "2 tokens, seed 43", "5 tokens, seed 42",
                                            "5 tokens, seed 43", "3 tokens, seed 42", "3 tokens, seed 43"}));
}

TEST_F(ChoiceGroupTest, ASeedThatIsDrawnIsThatOfAllPrompts) {
  StartLoop({.tokens = {kA}});
  GenerationRequest request = Ask(1);
  request.sampling.seed.reset();
  request.more_prompts = {TextPrompt{"hello"}};
  Generate(std::move(request));
  ASSERT_EQ(worker_->started().size(), 2u);
  EXPECT_EQ(worker_->started()[0]->sampling.seed, worker_->started()[1]->sampling.seed);
}

TEST_F(ChoiceGroupTest, OnePromptThatIsWrongRefusesAll) {
  StartLoop({.tokens = {kA}});
  GenerationRequest request = Ask(1);
  request.more_prompts = {TokenPrompt{{-1}}};
  const auto events = Generate(std::move(request));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(std::get<GenerationFailed>(events.front()).status));
  EXPECT_TRUE(worker_->started().empty());
}

TEST_F(ChoiceGroupTest, EachChoiceBeginsWithWhatTheFirstOfItsPromptSaysOfIt) {
  StartLoop({.tokens = {kA, kA + 1}, .prompt_logprob = -0.5f});
  GenerationRequest request = Ask(2);
  request.more_prompts = {TextPrompt{"you"}};
  request.echo = true;
  request.sampling.prompt_logprobs = 0;
  std::vector<std::string> echoes(4);
  for (const GenerationEvent& event : Generate(std::move(request))) {
    const auto* const delta = std::get_if<GenerationDelta>(&event);
    if (delta == nullptr || delta->prompt == nullptr) continue;
    ASSERT_NE(delta->prompt->logprobs, nullptr);
    absl::StrAppend(&echoes.at(static_cast<size_t>(delta->choice)), *delta->prompt->text, " ",
                    delta->tokens.front().index, " ", delta->prompt->logprobs->size());
  }
  EXPECT_EQ(echoes, std::vector<std::string>({"hi 0 1", "hi 0 1", "you 0 2", "you 0 2"}));
  std::vector<int32_t> asked(4);
  for (const auto& job : worker_->started()) asked.at(job->choice) = job->sampling.prompt_logprobs;
  EXPECT_EQ(asked, std::vector<int32_t>({0, -1, 0, -1})) << "the others may find the prompt in the cache";
}

TEST_F(ChoiceGroupTest, ADigestIsThatOfTheFirst) {
  StartLoop({.tokens = {kA}});
  GenerationRequest request = Ask(2);
  request.want_kv_digest = true;
  Generate(std::move(request));
  std::vector<bool> wanted;
  for (const auto& job : worker_->started()) wanted.push_back(job->want_kv_digest);
  EXPECT_EQ(wanted, std::vector<bool>({true, false}));
}

TEST_F(ChoiceGroupTest, TheFirstFailureEndsTheRequestAndItsOtherChoices) {
  StartLoop({.error = absl::InternalError("the worker fails")});
  const auto events = Generate(Ask(3));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(absl::IsInternal(std::get<GenerationFailed>(events.back()).status));
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(ChoiceGroupTest, AClientThatLeavesCancelsAllChoices) {
  StartLoop({.tokens = {kA}, .finish = FinishReason::kNone});
  generator_.Generate(Ask(3), sink_);
  // Accepted, and a token of each.
  sink_->WaitForEvents(4);
  generator_.Cancel(kAsked);
  const auto events = sink_->WaitForEnd();
  EXPECT_TRUE(absl::IsCancelled(std::get<GenerationFailed>(events.back()).status));
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(ChoiceGroupTest, AClientThatDoesNotReadLosesAllChoices) {
  sink_ = std::make_shared<MemorySink>(/*room=*/3);
  StartLoop({.tokens = std::vector<int32_t>(8, kA), .finish = FinishReason::kNone});
  const auto events = Generate(Ask(2));
  EXPECT_TRUE(absl::IsResourceExhausted(std::get<GenerationFailed>(events.back()).status));
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(ChoiceGroupTest, EachChoiceOfAClientThatIsBehindIsPaused) {
  StartLoop({.tokens = std::vector<int32_t>(8, kA), .finish = FinishReason::kLength, .silent_after = 2});
  sink_->SetBehind();
  generator_.Generate(Ask(3), sink_);
  EXPECT_EQ(AwaitPaused(3), 3u);
  generator_.Cancel(kAsked);
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(ChoiceGroupTest, ARequestWithoutRoomForAllChoicesIsRefusedBeforeItsClientHearsOfAny) {
  StartLoop({.tokens = {kA}});
  absl::Notification blocked;
  // The queue has 1024 places, of which this tenant may fill 896, and the first choice of each request is placed. All
  // requests come in one step of the loop.
  std::vector<std::shared_ptr<MemorySink>> sinks;
  loop_.PostWhenRoom([&](Dispatcher&) { blocked.WaitForNotification(); });
  for (uint64_t i = 0; i < 8; ++i) {
    GenerationRequest request = Ask(kMaxChoices);
    request.id.low += i;
    sinks.push_back(std::make_shared<MemorySink>());
    generator_.Generate(std::move(request), sinks.back());
  }
  blocked.Notify();
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto events = sinks[i]->WaitForEnd();
    if (i < 7) {
      EXPECT_EQ(std::get<GenerationFinished>(events.back()).choices.size(), static_cast<size_t>(kMaxChoices));
      continue;
    }
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(absl::IsResourceExhausted(std::get<GenerationFailed>(events.front()).status));
  }
  EXPECT_EQ(Jobs(), 0);
}

TEST_F(ChoiceGroupTest, TooManyChoicesAndChoicesOfAKeptJobAreRefused) {
  StartLoop({.tokens = {kA}});
  for (const int32_t choices : {-1, 0, kMaxChoices + 1}) {
    sink_ = std::make_shared<MemorySink>();
    const absl::Status status = std::get<GenerationFailed>(Generate(Ask(choices)).back()).status;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(GetFieldError(status)->field, "choices");
  }
  GenerationRequest kept = Ask(2);
  kept.resumable = true;
  GenerationRequest many = Ask(kMaxChoices / 2);
  many.more_prompts = {TextPrompt{"b"}, TextPrompt{"c"}};
  sink_ = std::make_shared<MemorySink>();
  EXPECT_TRUE(absl::IsInvalidArgument(std::get<GenerationFailed>(Generate(std::move(many)).back()).status));
  sink_ = std::make_shared<MemorySink>();
  EXPECT_TRUE(absl::IsInvalidArgument(std::get<GenerationFailed>(Generate(std::move(kept)).back()).status));
}

TEST(PendingOutputTest, WhatWaitsIsMergedForEachChoice) {
  PendingOutput pending;
  pending.Append({.text = "a", .tokens = {OutputToken()}, .choice = 1});
  pending.Append({.text = "x", .choice = 0});
  pending.Append({.text = "b", .tokens = {OutputToken()}, .choice = 1, .end = ChoiceEnd{}});
  const GenerationDelta first = pending.Take();
  EXPECT_EQ(first.choice, 1);
  EXPECT_EQ(first.text, "ab");
  EXPECT_EQ(first.tokens.size(), 2u);
  EXPECT_TRUE(first.end.has_value());
  EXPECT_FALSE(pending.empty());
  EXPECT_EQ(pending.Take().text, "x");
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(pending.bytes(), 0u);
}

TEST(PendingOutputTest, ItsLimitsAreThoseOfAllChoicesTogether) {
  PendingOutput pending({.tokens = 3, .bytes = 1'000'000});
  for (const int32_t choice : {0, 1, 2}) {
    const GenerationDelta delta = {.tokens = {OutputToken()}, .choice = choice};
    ASSERT_TRUE(pending.Fits(delta));
    pending.Append(delta);
  }
  EXPECT_FALSE(pending.Fits({.tokens = {OutputToken()}, .choice = 3}));
  pending.Take();
  EXPECT_TRUE(pending.Fits({.tokens = {OutputToken()}, .choice = 3}));
}

}  // namespace
}  // namespace baton::router
