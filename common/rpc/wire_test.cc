#include "common/rpc/wire.h"

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gtest/gtest.h"

namespace baton::rpc {
namespace {

namespace pb = internal::v1;

OutputToken LastToken() {
  return {.index = 7,
          .token = 42,
          .finish = FinishReason::kStop,
          .logprob = -0.25f,
          .top = {{.token = 42, .logprob = -0.25f}, {.token = 9, .logprob = -1.5f}}};
}

pb::CallToken Sent(const OutputToken& token) {
  pb::WorkerMessage message;
  AddReport(1, {.kind = WorkerUpdate::Kind::kToken, .token = token}, &message);
  return message.tokens(0);
}

TEST(Wire, ATokenKeepsItsFinishAndItsLogProbabilities) {
  const pb::CallToken proto = Sent(LastToken());
  const absl::StatusOr<OutputToken> token = FromProto(proto);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, LastToken());
}

TEST(Wire, AnUnknownFinishIsRefused) {
  for (const int finish : {-1, 3, 1000}) {
    pb::CallToken proto = Sent(LastToken());
    proto.set_finish(static_cast<pb::Finish>(finish));
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status())) << finish;
  }
}

TEST(Wire, LogProbabilitiesThatDoNotMatchTheirTokensAreRefused) {
  pb::CallToken proto = Sent(LastToken());
  proto.add_top_ids(3);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
  proto.clear_top_ids();
  proto.clear_top_logprobs();
  for (int i = 0; i <= kMaxLogprobs; ++i) {
    proto.add_top_ids(i);
    proto.add_top_logprobs(0);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
}

WorkerUpdate PromptUpdate() {
  WorkerUpdate update{.kind = WorkerUpdate::Kind::kPrompt, .token = {}, .first_prompt = 33};
  update.prompt = {{.logprob = -0.5f, .rank = 1, .top = {{7, -0.5f}, {8, -2}}},
                   {.logprob = -9, .rank = 400, .top = {}},
                   {.logprob = -1, .rank = 2, .top = {{3, -0.25f}}}};
  return update;
}

pb::CallPrompt SentPrompt() {
  pb::WorkerMessage message;
  AddReport(5, PromptUpdate(), &message);
  return message.prompts(0);
}

TEST(Wire, ThePromptsLogProbabilitiesArriveAsTheyWere) {
  const pb::CallPrompt proto = SentPrompt();
  EXPECT_EQ(proto.call(), 5u);
  const absl::StatusOr<WorkerUpdate> update = FromProto(proto);
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_EQ(update->kind, WorkerUpdate::Kind::kPrompt);
  EXPECT_EQ(update->first_prompt, 33);
  EXPECT_EQ(update->prompt, PromptUpdate().prompt);
}

TEST(Wire, ListsOfAPromptThatDoNotBelongTogetherAreRefused) {
  const auto is_refused = [](auto change) {
    pb::CallPrompt proto = SentPrompt();
    change(proto);
    return absl::IsInvalidArgument(FromProto(proto).status());
  };
  EXPECT_FALSE(is_refused([](pb::CallPrompt&) {}));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.set_first(0); })) << "the first token has none";
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.add_logprobs(1); }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.add_ranks(1); }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.add_top_counts(0); }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.add_top_ids(1); }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.add_top_logprobs(1); }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) { p.set_top_counts(1, 1); }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) {
    p.set_top_counts(0, 4);
    p.set_top_counts(1, -1);
    p.set_top_counts(2, 0);
  }));
  EXPECT_TRUE(is_refused([](pb::CallPrompt& p) {
    for (int i = 0; i < kMaxLogprobs - 1; ++i) {
      p.add_top_ids(i);
      p.add_top_logprobs(0);
    }
    p.set_top_counts(2, kMaxLogprobs);
    p.set_top_counts(0, kMaxLogprobs + 1);
  })) << "more than kMaxLogprobs in a place";
}

TEST(Wire, AnEmbeddingArrivesAsItWasUnlessItIsTooLarge) {
  const WorkerUpdate update = {.kind = WorkerUpdate::Kind::kToken, .token = {.embedding = {0.5f, -3, 1e-30f}}};
  pb::WorkerMessage message;
  AddReport(5, update, &message);
  const absl::StatusOr<OutputToken> token = FromProto(message.tokens(0));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->embedding, update.token.embedding);
  pb::CallToken large = message.tokens(0);
  large.mutable_embedding()->Resize(kMaxEmbeddingValues + 1, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(large).status()));
}

TEST(Wire, AJobKeyNamesJobAttemptAndChoice) {
  const JobKey key = {.job = {.high = 5, .low = 6}, .attempt = 3, .choice = 2};
  pb::JobKey proto;
  ToProto(key, &proto);
  EXPECT_EQ(FromProto(proto).value(), key);
  EXPECT_EQ(key.ToString(), absl::StrCat(key.job.ToHex(), ":2/3"));
  EXPECT_EQ((JobKey{.job = key.job, .attempt = 3}).ToString(), absl::StrCat(key.job.ToHex(), "/3"));
  proto.set_job("no id");
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
}

TEST(Wire, AnIdIsSixteenBytes) {
  const Id128 id = {.high = 0x0102030405060708, .low = 0xf1f2f3f4f5f6f7f8};
  const std::string bytes = ToBytes(id);
  ASSERT_EQ(bytes.size(), 16u);
  EXPECT_EQ(bytes[0], '\x01');
  EXPECT_EQ(bytes[15], '\xf8');
  EXPECT_EQ(FromBytes(bytes).value(), id);
  for (const size_t size : {size_t{0}, size_t{15}, size_t{17}, size_t{32}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FromBytes(std::string(size, 'x')).status())) << size;
  }
}

TEST(Wire, AnOriginOfKvComesThroughUnchangedAndNeedsAnIncarnation) {
  const KvOrigin origin = {.incarnation = {.high = 5, .low = 6}, .target = "host:1"};
  internal::v1::KvOrigin proto;
  ToProto(origin, &proto);
  EXPECT_EQ(FromProto(proto).value(), origin);
  proto.clear_incarnation();
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto).status()));
}

WorkerJob FullJob() {
  return {.key = {.job = {.high = 5, .low = 6}, .attempt = 3, .choice = 2},
          .secret = {.high = 7, .low = 8},
          .prompt = {1, 70'000, 3},
          .emitted = 2,
          .sampling = {.temperature = 0.5f,
                       .top_k = 4,
                       .top_p = 0.25f,
                       .min_p = 0.125f,
                       .repetition_penalty = 1.5f,
                       .frequency_penalty = 0.75f,
                       .presence_penalty = -0.5f,
                       .seed = ~uint64_t{0},
                       .max_tokens = 9,
                       .min_tokens = 2,
                       .ignore_eos = true,
                       .stop_token_ids = {11, 12},
                       .logprobs = 3,
                       .prompt_logprobs = 0,
                       .pooling = Pooling::kMean,
                       .logit_bias = {{.token = 4, .bias = -100}, {.token = 70'000, .bias = 2.5f}},
                       .grammar = {.kind = GrammarKind::kEbnf, .text = "root ::= \"a\""}},
          .tenant = "tenant",
          .deadline = 5 * kNsPerSecond,
          .want_kv_digest = true,
          .alone_outputs = 3,
          .trace = {.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                    .tracestate = "vendor=1",
                    .baggage = "user=7"}};
}

TEST(Wire, AnEmbeddingOfAnUnknownKindIsRefused) {
  pb::JobParams proto;
  ToProto(FullJob(), 0, &proto);
  EXPECT_TRUE(FromProto(proto, 0).ok());
  proto.mutable_sampling()->set_pooling(static_cast<pb::Pooling>(3));
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto, 0).status()));
}

TEST(Wire, AJobArrivesWithEverythingThatDecidesItsTokens) {
  const WorkerJob sent = FullJob();
  pb::JobParams proto;
  ToProto(sent, /*now=*/2 * kNsPerSecond, &proto);
  const absl::StatusOr<WorkerJob> job = FromProto(proto, /*now=*/1002 * kNsPerSecond);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->key, sent.key);
  EXPECT_EQ(job->secret, sent.secret);
  EXPECT_EQ(job->prompt, sent.prompt);
  EXPECT_EQ(job->tenant, sent.tenant);
  EXPECT_EQ(job->deadline, 1005 * kNsPerSecond) << "what is left, on the receiver's clock";
  EXPECT_TRUE(job->want_kv_digest);
  EXPECT_EQ(job->emitted, sent.emitted);
  EXPECT_EQ(job->alone_outputs, sent.alone_outputs);
  EXPECT_EQ(job->trace, sent.trace);
  EXPECT_EQ(job->sampling, sent.sampling);
  pb::JobParams again;
  ToProto(*job, /*now=*/1002 * kNsPerSecond, &again);
  EXPECT_EQ(again.SerializeAsString(), proto.SerializeAsString());
}

TEST(Wire, AGrammarOfAKindThatIsNotKnownIsRefused) {
  pb::JobParams proto;
  ToProto(FullJob(), 0, &proto);
  proto.mutable_sampling()->mutable_grammar()->set_kind(static_cast<pb::OutputGrammar::Kind>(6));
  EXPECT_EQ(FromProto(proto, 0).status().message(), "a grammar of the unknown kind 6");
}

TEST(Wire, AJobWithoutADeadlineHasNoneAndADamagedSecretIsRefused) {
  WorkerJob sent = FullJob();
  sent.deadline = kNever;
  pb::JobParams proto;
  ToProto(sent, 0, &proto);
  EXPECT_EQ(FromProto(proto, 1).value().deadline, kNever);
  proto.set_secret("short");
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto, 1).status()));
}

TEST(Wire, ReportsOfACallKeepTheirContent) {
  const WorkerReport report = {.queue_ns = 1,
                               .compute_ns = 2,
                               .steps = 3,
                               .batch_sequences = 4,
                               .max_batch_sequences = 5,
                               .preemptions = 6,
                               .read_ns = 7,
                               .digest_ns = 8,
                               .transfer_tail_ns = 9,
                               .transfer_bytes = 10,
                               .transport = "shm"};
  pb::WorkerMessage message;
  AddReport(4, {.kind = WorkerUpdate::Kind::kStarted, .cached_tokens = 16}, &message);
  AddReport(4, {.kind = WorkerUpdate::Kind::kKvCommitted, .report = report}, &message);
  AddReport(4, {.kind = WorkerUpdate::Kind::kToken, .token = LastToken()}, &message);
  AddReport(4, {.kind = WorkerUpdate::Kind::kFinished, .kv_digest = "d", .report = report}, &message);
  AddEnd(5, absl::UnavailableError("gone"), &message);
  ASSERT_EQ(message.started_size(), 1);
  EXPECT_EQ(message.started(0).call(), 4u);
  EXPECT_EQ(message.started(0).cached_tokens(), 16);
  EXPECT_EQ(message.kv_committed(0).call(), 4u);
  const WorkerReport hand_off = {
      .read_ns = 7, .digest_ns = 8, .transfer_tail_ns = 9, .transfer_bytes = 10, .transport = "shm"};
  EXPECT_EQ(FromProto(message.kv_committed(0)).value().report, hand_off);
  EXPECT_EQ(message.tokens(0).call(), 4u);
  EXPECT_EQ(FromProto(message.tokens(0)).value(), LastToken());
  const WorkerUpdate finished = FromProto(message.finished(0)).value();
  EXPECT_EQ(finished.kv_digest, "d");
  EXPECT_EQ(finished.report, report);
  EXPECT_EQ(message.ended(0).call(), 5u);
  absl::Status end;
  ASSERT_TRUE(FromProto(message.ended(0), end).ok());
  EXPECT_EQ(end, absl::UnavailableError("gone"));
}

TEST(Wire, AReportWithANumberBelowZeroOrBeyondAnyCallIsRefused) {
  for (const int64_t number : {int64_t{-1}, kMaxStatedNumber + 1}) {
    pb::CallFinished finished;
    finished.set_preemptions(number);
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(finished).status())) << number;
    pb::CallCommitted committed;
    committed.set_transfer_tail_ns(number);
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(committed).status())) << number;
  }
  pb::CallCommitted largest;
  largest.set_transfer_bytes(kMaxStatedNumber);
  EXPECT_TRUE(FromProto(largest).ok());
}

TEST(Wire, ABlockReportSurvivesTheTripWithEveryHold) {
  BlockReport report = {.free_blocks = 5, .cached_blocks = 6, .other_routers_blocks = 7, .holders = {}};
  for (const BlockHold hold : kBlockHolds) {
    const uint32_t n = static_cast<uint32_t>(report.holders.size());
    report.holders.push_back({.key = {.job = {.high = 1, .low = n}, .attempt = n + 1, .choice = n},
                              .hold = hold,
                              .blocks = 9,
                              .own_blocks = 7,
                              .held_ms = 1'000});
  }
  pb::BlockReport proto;
  ToProto(report, &proto);
  EXPECT_EQ(FromProto(proto).value(), report);
  proto.mutable_holders(0)->set_hold(static_cast<pb::BlockHold>(77));
  EXPECT_EQ(FromProto(proto)->holders[0].hold, BlockHold::kEnded) << "of a later version";
}

TEST(Wire, ABlockReportThatCannotBeRightIsRefused) {
  const auto refused = [](auto damage) {
    pb::BlockReport proto;
    ToProto(JobKey{.job = {.high = 1, .low = 2}, .attempt = 1}, proto.add_holders()->mutable_key());
    proto.mutable_holders(0)->set_blocks(3);
    EXPECT_TRUE(FromProto(proto).ok());
    damage(proto);
    return absl::IsInvalidArgument(FromProto(proto).status());
  };
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.set_free_blocks(-1); }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.set_cached_blocks(-1); }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.set_other_routers_blocks(-1); }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.mutable_holders(0)->set_own_blocks(-1); }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.mutable_holders(0)->set_own_blocks(4); }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.mutable_holders(0)->set_held_ms(-1); }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) { proto.mutable_holders(0)->mutable_key()->set_job("no id"); }));
  EXPECT_FALSE(refused([](pb::BlockReport& proto) {
    while (proto.holders_size() < kMaxSequences) *proto.add_holders() = pb::BlockHolder(proto.holders(0));
  }));
  EXPECT_TRUE(refused([](pb::BlockReport& proto) {
    while (proto.holders_size() <= kMaxSequences) *proto.add_holders() = pb::BlockHolder(proto.holders(0));
  }));
}

TEST(Wire, AnEndWithACodeThatNoStatusHasIsRefused) {
  absl::Status end;
  pb::CallEnded proto;
  for (const int32_t code : {-1, 17, 1000}) {
    proto.set_code(code);
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto, end))) << code;
  }
  proto.set_code(16);
  EXPECT_TRUE(FromProto(proto, end).ok());
  EXPECT_EQ(end.code(), absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace baton::rpc
