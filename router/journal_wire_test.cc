#include "router/journal_wire.h"

#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr JobId kId = {.high = 5, .low = 6};

KeptRequest MakeRequest() {
  auto job = std::make_shared<JobSpec>();
  job->id = kId;
  job->prompt = {3, 1, 4, 1, 5};
  job->sampling.temperature = 0.7f;
  job->sampling.seed = 0xfedcba9876543210;
  job->sampling.max_tokens = 77;
  job->sampling.stop_token_ids = {8, 9};
  job->sampling.logprobs = 2;
  job->sampling.grammar = {.kind = GrammarKind::kChoice, .text = "[\"a\"]"};
  job->sampling.logit_bias = {{.token = 4, .bias = -100}, {.token = 9, .bias = 2.5f}};
  job->tenant = "alice";
  job->priority = -3;
  job->least_outputs = 4;
  job->want_kv_digest = true;
  job->allows_other_numerics = true;
  job->trace.traceparent = "00-1-2-01";
  return {.job = std::move(job),
          .model = "m",
          .stop = {"END", "\n"},
          .owner = "alice",
          .idempotency_key = "key",
          .body = {.high = 10, .low = 11}};
}

KeptResult MakeResult() {
  KeptResult result;
  result.outputs = {
      {.token = {.index = 0, .token = 7, .logprob = -0.25f, .top = {{7, -0.25f}, {8, -2}}}, .text_end = 2},
      {.token = {.index = 1, .token = 9, .finish = FinishReason::kStop, .other_numerics = true}, .text_end = 2}};
  result.text = "hi!";
  result.finished = {.id = kId,
                     .seed = 42,
                     .reason = FinishReason::kStop,
                     .usage = {.prompt_tokens = 5, .output_tokens = 2, .cached_prompt_tokens = 1},
                     .kv_digest = "d",
                     .other_numerics_from = 1,
                     .timing = {.phases = {1, 2, 3, 4, 5}, .network_ns = 6, .total_ns = 21}};
  result.finished.decode.transfer_bytes = 99;
  return result;
}

TEST(JournalWireTest, ARequestComesBackAsItWas) {
  const KeptRequest request = MakeRequest();
  const auto read = RequestFromJournal(kId, ToJournal(request));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job->id, kId);
  EXPECT_EQ(read->job->prompt, request.job->prompt);
  EXPECT_EQ(read->job->sampling, request.job->sampling);
  EXPECT_EQ(read->job->tenant, "alice");
  EXPECT_EQ(read->job->priority, -3);
  EXPECT_EQ(read->job->least_outputs, 4);
  EXPECT_TRUE(read->job->want_kv_digest);
  EXPECT_TRUE(read->job->allows_other_numerics);
  EXPECT_EQ(read->job->trace, request.job->trace);
  EXPECT_EQ(read->job->deadline, kNever);
  EXPECT_EQ(read->model, "m");
  EXPECT_EQ(read->stop, request.stop);
  EXPECT_EQ(read->owner, "alice");
  EXPECT_EQ(read->idempotency_key, "key");
  EXPECT_EQ(read->body, request.body);
}

TEST(JournalWireTest, AResultComesBackAsItWas) {
  const KeptResult result = MakeResult();
  const auto read = ResultFromJournal(kId, 42, ToJournal(result));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ((*read)->outputs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*read)->outputs[i].token, result.outputs[i].token);
    EXPECT_EQ((*read)->outputs[i].text_end, result.outputs[i].text_end);
  }
  EXPECT_EQ((*read)->text, "hi!");
  const GenerationFinished& finished = (*read)->finished;
  EXPECT_EQ(finished.id, kId);
  EXPECT_EQ(finished.seed, 42u);
  EXPECT_EQ(finished.reason, FinishReason::kStop);
  EXPECT_EQ(finished.usage.output_tokens, 2);
  EXPECT_EQ(finished.usage.cached_prompt_tokens, 1);
  EXPECT_EQ(finished.kv_digest, "d");
  EXPECT_EQ(finished.other_numerics_from, 1);
  EXPECT_EQ(finished.timing.phases.decode_ns, 5);
  EXPECT_EQ(finished.timing.total_ns, 21);
  EXPECT_EQ(finished.decode.transfer_bytes, 99);
}

TEST(JournalWireTest, AResultOfOneFingerprintHasNoLabel) {
  KeptResult result = MakeResult();
  result.finished.other_numerics_from.reset();
  const auto read = ResultFromJournal(kId, 42, ToJournal(result));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->finished.other_numerics_from, std::nullopt);
  for (const KeptOutput& output : (*read)->outputs) EXPECT_FALSE(output.token.other_numerics);
}

TEST(JournalWireTest, WhatIsNotWhatItShouldBeIsDataLossAndNamesTheJob) {
  const JobId other = {.high = 1, .low = 1};
  EXPECT_TRUE(absl::IsDataLoss(RequestFromJournal(kId, "\xff\xff").status()));
  EXPECT_TRUE(absl::IsDataLoss(RequestFromJournal(other, ToJournal(MakeRequest())).status()));
  EXPECT_TRUE(absl::IsDataLoss(ResultFromJournal(kId, 1, "\xff\xff").status()));
  KeptResult beyond = MakeResult();
  beyond.outputs[1].text_end = 4;
  const absl::Status refused = ResultFromJournal(kId, 1, ToJournal(beyond)).status();
  EXPECT_TRUE(absl::IsDataLoss(refused));
  EXPECT_NE(refused.message().find(kId.ToHex()), std::string::npos) << refused;
}

}  // namespace
}  // namespace baton::router
