#include "router/cluster_members.h"

#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/drain.h"
#include "common/rpc/protocol.h"
#include "common/rpc/wire.h"
#include "common/testing/manual_clock.h"
#include "common/testing/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace baton::router {
namespace {

namespace pb = internal::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps what the router says to one worker.
class FakeStream final : public WorkerStream {
 public:
  void Send(size_t bytes, absl::FunctionRef<void(pb::RouterMessage&)> fill) override {
    if (ended()) return;
    pb::RouterMessage message;
    fill(message);
    EXPECT_LE(message.ByteSizeLong(), bytes);
    said.MergeFrom(message);
  }
  void End(const absl::Status& why) override {
    if (!ended()) end = why;
  }
  bool ended() const override { return end.has_value(); }

  pb::RouterMessage said;
  std::optional<absl::Status> end;
};

pb::Hello MakeHello(uint64_t n, pb::WorkerRole role) {
  pb::Hello hello;
  hello.set_protocol_version(rpc::kProtocolVersion);
  hello.set_incarnation(rpc::ToBytes({.high = 3, .low = n}));
  hello.set_role(role);
  hello.set_target("host:" + std::to_string(n));
  hello.set_model("tiny");
  hello.set_fingerprint("f");
  hello.set_total_blocks(100);
  hello.set_max_sequences(16);
  hello.set_chunk_tokens(64);
  hello.set_context_length(4096);
  hello.set_full_groups(1);
  return hello;
}

// What is logged while it lives.
class LoggedLines {
 public:
  LoggedLines() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_pattern("%l: %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LoggedLines() { spdlog::set_default_logger(before_); }

  // Since the last call.
  std::string Take() {
    std::string lines = lines_.str();
    lines_.str("");
    return lines;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream lines_;
};

// One worker's end: its stream, and the membership that it was given.
struct FakeWorker {
  std::shared_ptr<FakeStream> stream = std::make_shared<FakeStream>();

  pb::WorkerMessage Message() const {
    pb::WorkerMessage message;
    message.set_membership(stream->said.accepted().membership());
    return message;
  }
  // The number of the last call that was started.
  uint64_t last_call() const { return stream->said.starts(stream->said.starts_size() - 1).call(); }
};

class ClusterMembersTest : public ::testing::Test {
 protected:
  explicit ClusterMembersTest(rpc::CapabilitySigner* capabilities = nullptr)
      : members_({.model = "tiny",
                  .vocab_size = 300,
                  .on_serving = [this](bool serving) { serving_.push_back(serving); },
                  .capabilities = capabilities},
                 clock_, random_) {}

  FakeWorker Join(const pb::Hello& hello) {
    FakeWorker worker;
    pb::WorkerMessage message;
    *message.mutable_hello() = hello;
    Say(worker, message);
    return worker;
  }
  FakeWorker Join(uint64_t n, pb::WorkerRole role) { return Join(MakeHello(n, role)); }
  void Say(const FakeWorker& worker, const pb::WorkerMessage& message) {
    members_.OnMessage(dispatcher_, worker.stream, message);
    Apply();
  }
  void Close(const FakeWorker& worker) {
    members_.OnClosed(dispatcher_, *worker.stream);
    Apply();
  }
  void Submit(uint64_t n, int32_t max_tokens = 4) {
    auto job = std::make_shared<JobSpec>();
    job->id = {.high = 2, .low = n};
    job->prompt.assign(40, 7);
    job->sampling.max_tokens = max_tokens;
    job->tenant = "tenant";
    job->trace.traceparent = "trace";
    ASSERT_TRUE(dispatcher_.Submit(std::move(job)).ok());
    Apply();
  }
  void Apply() {
    for (const DispatchAction& action : dispatcher_.TakeActions()) {
      if (const auto* start_p = std::get_if<StartPrefill>(&action)) members_.Start(*start_p);
      if (const auto* start_d = std::get_if<StartDecode>(&action)) members_.Start(*start_d);
      if (const auto* cancel = std::get_if<CancelAttempt>(&action)) members_.Cancel(*cancel);
      if (const auto* move = std::get_if<HandOverAttempt>(&action)) members_.Move(*move);
      if (const auto* end = std::get_if<EndMembership>(&action)) members_.End(*end);
      if (const auto* drain = std::get_if<DrainWorker>(&action)) members_.Drain(*drain);
      if (const auto* emit = std::get_if<EmitToken>(&action)) emitted_.push_back(emit->token.token);
      if (const auto* end_job = std::get_if<EndJob>(&action)) results_.push_back(end_job->result.status);
    }
  }
  // What the one worker that states the feature is told of the sampling of two jobs that need it. The other worker
  // states every other feature, and gets none of them.
  pb::Sampling SaidToWhoKnows(uint64_t feature, const SamplingParams& sampling) {
    pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
    hello.set_features(rpc::kProtocolFeatures & ~feature);
    const FakeWorker former = Join(hello);
    hello = MakeHello(2, pb::WORKER_ROLE_MIXED);
    hello.set_features(feature);
    const FakeWorker knows = Join(hello);
    for (uint64_t n = 1; n <= 2; ++n) {
      auto job = std::make_shared<JobSpec>();
      job->id = {.high = 2, .low = n};
      job->prompt.assign(40, 7);
      job->sampling = sampling;
      EXPECT_TRUE(dispatcher_.Submit(std::move(job)).ok());
      Apply();
    }
    EXPECT_EQ(former.stream->said.starts_size(), 0);
    EXPECT_EQ(knows.stream->said.starts_size(), 2);
    return knows.stream->said.starts_size() == 0 ? pb::Sampling() : knows.stream->said.starts(0).job().sampling();
  }
  static void AddToken(pb::WorkerMessage& message, uint64_t call, OutputToken token) {
    rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kToken, .token = std::move(token)}, &message);
  }
  size_t worker_count() const { return dispatcher_.registry().workers().size(); }

  ManualClock clock_;
  SeededRandom random_{1};
  // A job ends with its worker.
  Dispatcher dispatcher_{DispatcherOptions{.max_losses = 0}, clock_, random_};
  std::vector<bool> serving_;
  ClusterMembers members_;
  std::vector<int32_t> emitted_;
  std::vector<absl::Status> results_;
};

TEST_F(ClusterMembersTest, AHelloIsAnsweredWithAMembershipTheVersionAndFeaturesThatBothKnow) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_features(~uint64_t{0});
  const FakeWorker worker = Join(hello);
  const pb::Accepted& accepted = worker.stream->said.accepted();
  EXPECT_EQ(accepted.protocol_version(), rpc::kProtocolVersion);
  EXPECT_EQ(accepted.features(), rpc::kProtocolFeatures);
  EXPECT_GT(accepted.heartbeat_interval_ms(), 0);
  ASSERT_EQ(worker_count(), 1u);
  const WorkerInfo& info = dispatcher_.registry().workers().begin()->second.info;
  EXPECT_EQ(rpc::FromBytes(accepted.membership()).value(), info.id);
  EXPECT_EQ(info.incarnation, (Incarnation{.high = 3, .low = 1}));
  EXPECT_EQ(info.role, WorkerRole::kMixed);
  EXPECT_EQ(info.total_blocks, 100);
}

TEST_F(ClusterMembersTest, AnotherVersionIsRefusedAndToldWhatToDo) {
  for (const uint32_t version : {uint32_t{0}, rpc::kProtocolVersion - 1, rpc::kProtocolVersion + 1}) {
    pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
    hello.set_protocol_version(version);
    const FakeWorker worker = Join(hello);
    EXPECT_FALSE(worker.stream->said.has_accepted());
    ASSERT_TRUE(worker.stream->ended());
    EXPECT_TRUE(absl::IsFailedPrecondition(*worker.stream->end));
    EXPECT_THAT(std::string(worker.stream->end->message()),
                HasSubstr("start router and workers from the same release"));
  }
  EXPECT_EQ(worker_count(), 0u);
}

TEST_F(ClusterMembersTest, AnotherModelIsRefusedWithBothNames) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_model("other\n");
  const FakeWorker worker = Join(hello);
  ASSERT_TRUE(worker.stream->ended());
  EXPECT_TRUE(absl::IsFailedPrecondition(*worker.stream->end));
  EXPECT_THAT(std::string(worker.stream->end->message()), HasSubstr("serves tiny, the worker has other\\n"));
}

TEST_F(ClusterMembersTest, UnderTheSameNameAnotherVocabularyIsRefusedAndAnotherFingerprintIsAGroupOfItsOwn) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_vocab_size(301);
  const FakeWorker refused = Join(hello);
  ASSERT_TRUE(refused.stream->ended());
  EXPECT_TRUE(absl::IsFailedPrecondition(*refused.stream->end));
  EXPECT_THAT(std::string(refused.stream->end->message()), HasSubstr("tiny has 300 token ids, the worker's 301"));
  hello.set_vocab_size(300);
  Join(hello);
  hello = MakeHello(2, pb::WORKER_ROLE_MIXED);
  hello.set_fingerprint("g");
  Join(hello);
  EXPECT_EQ(worker_count(), 2u);
  EXPECT_EQ(dispatcher_.registry().GroupName("f"), "A");
  EXPECT_EQ(dispatcher_.registry().GroupName("g"), "B");
}

TEST_F(ClusterMembersTest, ARefusedWorkerIsLoggedOnceForEachReasonAndIsListedUntilItJoins) {
  LoggedLines log;
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_DECODE);
  hello.set_pid(44);
  hello.set_model("other");
  Join(hello);
  EXPECT_EQ(log.Take(),
            "warning: refused decode worker host:1 (pid 44): this router serves tiny, the worker has other: give the "
            "worker the router's --model, or --served-model-name tiny if it has the same model under another file "
            "name\n");
  clock_.Advance(kNsPerSecond);
  Join(hello);
  EXPECT_EQ(log.Take(), "");
  const std::vector<RefusedWorker> refused = dispatcher_.registry().refused().Present(clock_.Now());
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].role, "decode");
  EXPECT_EQ(refused[0].model, "other");
  EXPECT_EQ(refused[0].asked_at, clock_.Now());
  hello.set_model("tiny");
  Join(hello);
  EXPECT_TRUE(dispatcher_.registry().refused().Present(clock_.Now()).empty());
}

TEST_F(ClusterMembersTest, ABiasGoesToAWorkerThatStatesThatItKnowsIt) {
  const pb::Sampling sampling =
      SaidToWhoKnows(rpc::kFeatureLogitBias, {.logit_bias = {{.token = 4, .bias = -100}, {.token = 9, .bias = 2.5f}}});
  ASSERT_EQ(sampling.logit_bias_size(), 2);
  EXPECT_EQ(sampling.logit_bias(1).id(), 9);
  EXPECT_EQ(sampling.logit_bias(1).bias(), 2.5f);
}

TEST_F(ClusterMembersTest, PromptLogProbabilitiesAreAskedOfAWorkerThatStatesThatItKnowsThem) {
  EXPECT_EQ(SaidToWhoKnows(rpc::kFeaturePromptLogprobs, {.prompt_logprobs = 3}).prompt_logprobs(), 3);
}

TEST_F(ClusterMembersTest, AnEmbeddingIsAskedOfAWorkerThatStatesThatItKnowsIt) {
  const pb::Sampling sampling = SaidToWhoKnows(rpc::kFeatureEmbeddings, {.max_tokens = 1, .pooling = Pooling::kMean});
  EXPECT_EQ(sampling.pooling(), pb::POOLING_MEAN);
}

TEST_F(ClusterMembersTest, AGrammarGoesToAWorkerThatStatesThatItKnowsIt) {
  const pb::Sampling sampling =
      SaidToWhoKnows(rpc::kFeatureGrammar, {.grammar = {.kind = GrammarKind::kRegex, .text = "a+"}});
  EXPECT_EQ(sampling.grammar().text(), "a+");
}

TEST_F(ClusterMembersTest, ARunningCallIsHandedOverByItsNumberAndGoesOnAtTheNextWorker) {
  const auto join = [this](uint64_t n, uint64_t features) {
    pb::Hello hello = MakeHello(n, pb::WORKER_ROLE_MIXED);
    hello.set_features(features);
    return Join(hello);
  };
  const FakeWorker draining = join(1, rpc::kProtocolFeatures);
  Submit(1);
  const FakeWorker former = join(2, 0);
  const FakeWorker other = join(3, rpc::kFeatureResume);
  const uint64_t call = draining.last_call();
  pb::WorkerMessage message = draining.Message();
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &message);
  AddToken(message, call, {.index = 0, .token = 70});
  message.mutable_load()->set_draining(true);
  Say(draining, message);
  Say(draining, draining.Message());
  // The load came before the token.
  pb::WorkerMessage heartbeat = draining.Message();
  heartbeat.mutable_load()->set_draining(true);
  Say(draining, heartbeat);
  ASSERT_EQ(draining.stream->said.hand_overs_size(), 1);
  const pb::HandOver& hand_over = draining.stream->said.hand_overs(0);
  EXPECT_EQ(hand_over.call(), call);
  EXPECT_EQ(hand_over.next_attempt(), 2u);

  pb::WorkerMessage frozen = draining.Message();
  // In one message: the token goes first.
  rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kFrozen, .token = {.index = 1, .token = 71}}, &frozen);
  AddToken(frozen, call, {.index = 1, .token = 71});
  Say(draining, frozen);
  EXPECT_EQ(former.stream->said.starts_size(), 0);
  ASSERT_EQ(other.stream->said.starts_size(), 1);
  const pb::CallStart& start = other.stream->said.starts(0);
  EXPECT_EQ(start.job().key().attempt(), 2u);
  EXPECT_EQ(start.job().secret(), hand_over.secret());
  EXPECT_EQ(start.job().emitted(), 1);
  EXPECT_EQ(start.decode().prefill_target(), "host:1");
  EXPECT_EQ(start.decode().prefill_incarnation(), rpc::ToBytes({.high = 3, .low = 1}));
  EXPECT_THAT(emitted_, ElementsAre(70, 71));
}

TEST_F(ClusterMembersTest, AnOrderToDrainGoesToTheWorkersThatStateThatTheyTakeIt) {
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_features(rpc::kProtocolFeatures);
  hello.set_drain_timeout_ms(7'000);
  const FakeWorker ordered = Join(hello);
  const FakeWorker former = Join(2, pb::WORKER_ROLE_MIXED);
  LoggedLines log;
  const WorkerId id = dispatcher_.OrderDrain("host:1").value();
  EXPECT_EQ(dispatcher_.registry().Find(id)->info.drain_timeout_ms, 7'000);
  EXPECT_TRUE(absl::IsFailedPrecondition(dispatcher_.OrderDrain("host:2").status()));
  Apply();
  EXPECT_TRUE(ordered.stream->said.drain());
  EXPECT_FALSE(former.stream->said.drain());
  EXPECT_EQ(log.Take(), "info: mixed worker host:1 (pid 0) is told to drain, as an operator has ordered\n");
  // The rest is as without an order.
  EXPECT_FALSE(ordered.stream->said.drain_accepted());
  pb::WorkerMessage draining = ordered.Message();
  draining.mutable_load()->set_draining(true);
  Say(ordered, draining);
  Say(ordered, ordered.Message());
  EXPECT_TRUE(ordered.stream->said.drain_accepted());
  Close(ordered);
  EXPECT_EQ(dispatcher_.drain_orders().Find({.high = 3, .low = 1})->state, DrainState::kLeft);
}

TEST_F(ClusterMembersTest, AnUntrueTimeToDrainIsBounded) {
  int64_t n = 0;
  for (const auto& [stated, taken] :
       {std::pair{-1, 0}, {kMaxDrainTimeoutMs, kMaxDrainTimeoutMs}, {kMaxDrainTimeoutMs + 1, kMaxDrainTimeoutMs}}) {
    pb::Hello hello = MakeHello(static_cast<uint64_t>(++n), pb::WORKER_ROLE_MIXED);
    hello.set_drain_timeout_ms(stated);
    Join(hello);
    EXPECT_EQ(dispatcher_.registry().FindProcess({.high = 3, .low = static_cast<uint64_t>(n)})->info.drain_timeout_ms,
              taken);
  }
}

TEST_F(ClusterMembersTest, JoinDrainLeaveAndLossAreOneLineEachWithAgeAndOpenCalls) {
  LoggedLines log;
  const FakeWorker prefill = Join(1, pb::WORKER_ROLE_PREFILL);
  EXPECT_EQ(log.Take(),
            "info: prefill worker host:1 (pid 0) joined: 100 blocks, group A (f), without a partner yet: no decode "
            "worker with this fingerprint\n");
  const FakeWorker decode = Join(2, pb::WORKER_ROLE_DECODE);
  EXPECT_EQ(log.Take(),
            "info: decode worker host:2 (pid 0) joined: 100 blocks, group A (f)\ninfo: requests can be served\n");
  Submit(1);
  clock_.Advance(2'340 * kNsPerMs);
  pb::WorkerMessage draining = prefill.Message();
  draining.mutable_load()->set_draining(true);
  Say(prefill, draining);
  EXPECT_EQ(log.Take(),
            "info: prefill worker host:1 (pid 0) is draining, with 1 open call\n"
            "warning: no request can be served until there is a prefill worker of group A\n");
  Close(decode);
  EXPECT_EQ(log.Take(),
            "warning: decode worker host:2 (pid 0) is lost after 2.3 s as a member, with 1 open call: its stream "
            "broke\n");
  pb::WorkerMessage ended = prefill.Message();
  rpc::AddEnd(prefill.last_call(), absl::CancelledError("cancelled"), &ended);
  Say(prefill, ended);
  Close(prefill);
  EXPECT_EQ(log.Take(), "info: prefill worker host:1 (pid 0) left after 2.3 s as a member, with 0 open calls\n");
}

TEST_F(ClusterMembersTest, WhoIsRefusedSaysNothingMore) {
  const FakeWorker member = Join(1, pb::WORKER_ROLE_MIXED);
  // The same process again, without the membership that it had.
  const FakeWorker refused = Join(1, pb::WORKER_ROLE_MIXED);
  ASSERT_TRUE(refused.stream->ended());
  EXPECT_TRUE(absl::IsAlreadyExists(*refused.stream->end));
  pb::WorkerMessage forged = member.Message();
  forged.mutable_load()->set_draining(true);
  Say(refused, forged);
  Close(refused);
  ASSERT_EQ(worker_count(), 1u);
  EXPECT_EQ(dispatcher_.registry().workers().begin()->second.load.state, WorkerState::kServing);
  EXPECT_FALSE(member.stream->ended());
}

TEST_F(ClusterMembersTest, AFirstMessageOtherThanAHelloAndADamagedHelloAreRefused) {
  const FakeWorker silent;
  Say(silent, pb::WorkerMessage());
  EXPECT_TRUE(absl::IsInvalidArgument(silent.stream->end.value()));
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_UNSPECIFIED);
  EXPECT_TRUE(absl::IsInvalidArgument(Join(hello).stream->end.value()));
  hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_incarnation("short");
  EXPECT_TRUE(absl::IsInvalidArgument(Join(hello).stream->end.value()));
  hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_resumes("short");
  EXPECT_TRUE(absl::IsInvalidArgument(Join(hello).stream->end.value()));
  EXPECT_EQ(worker_count(), 0u);
}

TEST_F(ClusterMembersTest, BothWorkersOfAPairGetTheJobItsSecretAndItsTrace) {
  const FakeWorker prefill = Join(1, pb::WORKER_ROLE_PREFILL);
  const FakeWorker decode = Join(2, pb::WORKER_ROLE_DECODE);
  Submit(1);
  ASSERT_EQ(prefill.stream->said.starts_size(), 1);
  ASSERT_EQ(decode.stream->said.starts_size(), 1);
  const pb::CallStart& p = prefill.stream->said.starts(0);
  const pb::CallStart& d = decode.stream->said.starts(0);
  ASSERT_TRUE(p.has_prefill());
  ASSERT_TRUE(d.has_decode());
  EXPECT_EQ(p.job().prompt_size(), 40);
  EXPECT_EQ(p.job().traceparent(), "trace");
  EXPECT_EQ(p.job().SerializeAsString(), d.job().SerializeAsString());
  EXPECT_FALSE(rpc::FromBytes(p.job().secret()).value().is_zero());
  EXPECT_EQ(d.decode().prefill_target(), "host:1");
  EXPECT_EQ(rpc::FromBytes(d.decode().prefill_incarnation()).value(), (Incarnation{.high = 3, .low = 1}));
  EXPECT_EQ(d.decode().earlier_size(), 0);
  const KvOrigin origin{.incarnation = {.high = 4, .low = 4}, .target = "host:4"};
  const auto job = std::make_shared<JobSpec>();
  members_.Start(StartDecode{.worker = rpc::FromBytes(decode.Message().membership()).value(),
                             .incarnation = {.high = 3, .low = 2},
                             .target = "host:2",
                             .key = {.job = {.high = 2, .low = 1}, .attempt = 2},
                             .secret = {},
                             .job = job,
                             .prefill_incarnation = {.high = 3, .low = 1},
                             .prefill_target = "host:1",
                             .earlier = {origin}});
  ASSERT_EQ(decode.stream->said.starts_size(), 2);
  ASSERT_EQ(decode.stream->said.starts(1).decode().earlier_size(), 1);
  EXPECT_EQ(rpc::FromProto(decode.stream->said.starts(1).decode().earlier(0)).value(), origin);
}

// A router's certificate, and what is made of it.
struct RouterKeys {
  const rpc::TestAuthority authority;
  const rpc::TestTlsFiles files;
  // It is read again when the test says so.
  const std::unique_ptr<rpc::Credentials> credentials = [this] {
    files.Write(authority.Issue({.names = {rpc::RoleName("router")}}), authority);
    return *rpc::Credentials::Create(files.names(), {}, /*watch_interval_ms=*/3'600'000);
  }();
  const std::unique_ptr<rpc::CapabilitySigner> signer = *rpc::CapabilitySigner::Create(*credentials);
  rpc::CapabilityVerifier verifier{*credentials};
};

// With TLS.
class CapabilityMembersTest : protected RouterKeys, public ClusterMembersTest {
 protected:
  CapabilityMembersTest() : ClusterMembersTest(signer.get()) {}

  FakeWorker JoinWith(uint64_t n, pb::WorkerRole role, uint64_t features = rpc::kProtocolFeatures) {
    pb::Hello hello = MakeHello(n, role);
    hello.set_features(features);
    return Join(hello);
  }
  // What the reader of this start has to show.
  CapabilityTerms Verified(const FakeWorker& reader, const pb::CallStart& start) {
    pb::Capability capability;
    *capability.mutable_terms() = start.decode().capability();
    *capability.mutable_key() = reader.stream->said.capability_key();
    const auto terms = verifier.Verify(capability.SerializeAsString());
    EXPECT_TRUE(terms.ok()) << terms.status();
    return terms.value_or(CapabilityTerms{});
  }
};

TEST_F(CapabilityMembersTest, TheReaderGetsACapabilityForItsSourceAndTheSourceIsToldTheReader) {
  const FakeWorker prefill = JoinWith(1, pb::WORKER_ROLE_PREFILL);
  const FakeWorker decode = JoinWith(2, pb::WORKER_ROLE_DECODE);
  Submit(1);
  const pb::CallStart& p = prefill.stream->said.starts(0);
  const pb::CallStart& d = decode.stream->said.starts(0);
  EXPECT_EQ(p.prefill().reader_incarnation(), rpc::ToBytes({.high = 3, .low = 2}));
  EXPECT_FALSE(prefill.stream->said.has_capability_key());
  const auto source = rpc::FromBytes(prefill.stream->said.accepted().membership());
  const CapabilityTerms expected = {.key = {.job = {.high = 2, .low = 1}, .attempt = 1, .choice = 0},
                                    .source = {.high = 3, .low = 1},
                                    .reader = {.high = 3, .low = 2},
                                    .membership = rpc::MembershipTag(*source),
                                    .tenant = "tenant",
                                    .first_block = 0};
  EXPECT_EQ(Verified(decode, d), expected);
  EXPECT_EQ(decode.stream->said.SerializeAsString().find(rpc::ToBytes(*source)), std::string::npos)
      << "a membership is a secret";
}

TEST_F(CapabilityMembersTest, TheKeyIsSentOnceForAMembershipAndAgainWhenTheCertificateChanges) {
  const FakeWorker prefill = JoinWith(1, pb::WORKER_ROLE_PREFILL);
  const FakeWorker decode = JoinWith(2, pb::WORKER_ROLE_DECODE);
  Submit(1);
  const std::string first = decode.stream->said.capability_key().chain();
  decode.stream->said.Clear();
  Submit(2);
  EXPECT_TRUE(decode.stream->said.starts(0).decode().has_capability());
  EXPECT_FALSE(decode.stream->said.has_capability_key());
  files.Write(authority.Issue({.names = {rpc::RoleName("router")}}), authority);
  credentials->Reload();
  decode.stream->said.Clear();
  Submit(3);
  EXPECT_NE(decode.stream->said.capability_key().chain(), first);
  EXPECT_EQ(Verified(decode, decode.stream->said.starts(0)).key.job, (JobId{.high = 2, .low = 3}));
}

// So workers are replaced one at a time, in any order, without a request that fails.
TEST_F(CapabilityMembersTest, WhereOneOfThePairIsOfAnOlderVersionTheSecretIsEnough) {
  const uint64_t older = rpc::kProtocolFeatures & ~rpc::kFeatureCapabilities;
  LoggedLines log;
  const FakeWorker prefill = JoinWith(1, pb::WORKER_ROLE_PREFILL, older);
  EXPECT_THAT(log.Take(), HasSubstr("warning: prefill worker host:1 (pid 0) is of a version without capabilities"));
  const FakeWorker decode = JoinWith(2, pb::WORKER_ROLE_DECODE);
  EXPECT_THAT(log.Take(), ::testing::Not(HasSubstr("warning")));
  Submit(1);
  Close(prefill);
  const FakeWorker newer = JoinWith(3, pb::WORKER_ROLE_PREFILL);
  Close(decode);
  const FakeWorker former = JoinWith(4, pb::WORKER_ROLE_DECODE, older);
  Submit(2);
  ASSERT_EQ(decode.stream->said.starts_size(), 1);
  EXPECT_FALSE(decode.stream->said.starts(0).decode().has_capability());
  ASSERT_EQ(newer.stream->said.starts_size(), 1);
  EXPECT_EQ(newer.stream->said.starts(0).prefill().reader_incarnation(), "");
  ASSERT_EQ(former.stream->said.starts_size(), 1);
  EXPECT_FALSE(former.stream->said.starts(0).decode().has_capability());
}

TEST_F(CapabilityMembersTest, ARequestWithoutAHandOffNeedsNone) {
  const FakeWorker mixed = JoinWith(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Submit(2, /*max_tokens=*/1);
  ASSERT_EQ(mixed.stream->said.starts_size(), 2);
  for (const pb::CallStart& start : mixed.stream->said.starts()) {
    EXPECT_EQ(start.prefill().reader_incarnation(), "");
    EXPECT_FALSE(start.decode().has_capability());
  }
}

TEST_F(CapabilityMembersTest, AHandOverDemandsOneWhereAllThatMayGoOnCanShowOne) {
  for (const uint64_t features : {rpc::kFeatureResume, rpc::kProtocolFeatures}) {
    const FakeWorker draining = JoinWith(1, pb::WORKER_ROLE_MIXED);
    Submit(features);
    const FakeWorker other = JoinWith(2, pb::WORKER_ROLE_MIXED, features);
    const uint64_t call = draining.last_call();
    pb::WorkerMessage message = draining.Message();
    rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &message);
    AddToken(message, call, {.index = 0, .token = 70});
    message.mutable_load()->set_draining(true);
    Say(draining, message);
    pb::WorkerMessage heartbeat = draining.Message();
    heartbeat.mutable_load()->set_draining(true);
    Say(draining, heartbeat);
    ASSERT_EQ(draining.stream->said.hand_overs_size(), 1);
    const bool can_show = features == rpc::kProtocolFeatures;
    EXPECT_EQ(draining.stream->said.hand_overs(0).needs_capability(), can_show);
    pb::WorkerMessage frozen = draining.Message();
    rpc::AddReport(call, {.kind = WorkerUpdate::Kind::kFrozen, .token = {.index = 0, .token = 70}}, &frozen);
    Say(draining, frozen);
    ASSERT_EQ(other.stream->said.starts_size(), 1);
    ASSERT_EQ(other.stream->said.starts(0).decode().has_capability(), can_show);
    if (can_show) {
      const CapabilityTerms terms = Verified(other, other.stream->said.starts(0));
      EXPECT_EQ(terms.key.attempt, 2u);
      const auto source = rpc::FromBytes(draining.stream->said.accepted().membership());
      EXPECT_EQ(terms.membership, rpc::MembershipTag(*source));
    }
    Close(draining);
    Close(other);
  }
}

TEST_F(ClusterMembersTest, OneMessageCarriesTheTokensOfAllCalls) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Submit(2);
  ASSERT_EQ(worker.stream->said.starts_size(), 2);
  pb::WorkerMessage message = worker.Message();
  for (const pb::CallStart& start : worker.stream->said.starts()) {
    const int32_t token = static_cast<int32_t>(start.call()) * 10;
    rpc::AddReport(start.call(), {.kind = WorkerUpdate::Kind::kStarted, .token = {}}, &message);
    AddToken(message, start.call(), {.index = 0, .token = token});
    AddToken(message, start.call(), {.index = 1, .token = token + 1, .finish = FinishReason::kStop});
    rpc::AddReport(start.call(), {.kind = WorkerUpdate::Kind::kFinished, .token = {}}, &message);
    rpc::AddEnd(start.call(), absl::OkStatus(), &message);
  }
  Say(worker, message);
  EXPECT_THAT(emitted_, ElementsAre(10, 11, 20, 21));
  EXPECT_THAT(results_, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_EQ(dispatcher_.open_calls(), 0);
}

TEST_F(ClusterMembersTest, ACancelNamesTheNumberOfTheCall) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Submit(2);
  dispatcher_.Cancel({.job = {.high = 2, .low = 2}}, absl::CancelledError("client"));
  Apply();
  EXPECT_THAT(worker.stream->said.cancels(), ElementsAre(worker.last_call()));
  pb::WorkerMessage message = worker.Message();
  rpc::AddEnd(worker.last_call(), absl::CancelledError("cancelled"), &message);
  Say(worker, message);
  EXPECT_EQ(dispatcher_.open_calls(), 1);
}

TEST_F(ClusterMembersTest, AMalformedMessageEndsItsMembershipAloneAndSaysWhatWasWrong) {
  const std::vector<std::pair<std::string, std::function<void(pb::WorkerMessage&, uint64_t)>>> cases = {
      {"call 99, which is not open", [](pb::WorkerMessage& m, uint64_t) { m.add_kv_committed()->set_call(99); }},
      {"call 0, which is not open", [](pb::WorkerMessage& m, uint64_t) { m.add_tokens(); }},
      {"another membership", [](pb::WorkerMessage& m, uint64_t) { m.set_membership(std::string(16, 'x')); }},
      {"another membership", [](pb::WorkerMessage& m, uint64_t) { m.clear_membership(); }},
      {"a second hello", [](pb::WorkerMessage& m, uint64_t) { m.mutable_hello(); }},
      {"a count of -1", [](pb::WorkerMessage& m, uint64_t) { m.mutable_load()->set_free_blocks(-1); }},
      {"a count of 9223372036854775807",
       [](pb::WorkerMessage& m, uint64_t) {
         m.mutable_load()->set_pending_prompt_tokens(std::numeric_limits<int64_t>::max());
       }},
      {"the unknown finish 7",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_tokens()->set_call(call);
         m.mutable_tokens(0)->set_finish(static_cast<pb::Finish>(7));
       }},
      {"the number -1",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_kv_committed()->set_call(call);
         m.mutable_kv_committed(0)->set_transfer_bytes(-1);
       }},
      {"the number -9",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_finished()->set_call(call);
         m.mutable_finished(0)->set_compute_ns(-9);
       }},
      {"the code 99",
       [](pb::WorkerMessage& m, uint64_t call) {
         m.add_ended()->set_call(call);
         m.mutable_ended(0)->set_code(99);
       }},
      {"call 1, which is not open",
       [](pb::WorkerMessage& m, uint64_t call) {
         rpc::AddEnd(call, absl::OkStatus(), &m);
         rpc::AddEnd(call, absl::OkStatus(), &m);
       }},
  };
  pb::Hello bystander = MakeHello(1, pb::WORKER_ROLE_DECODE);
  bystander.set_fingerprint("g");
  const FakeWorker other = Join(bystander);
  for (uint64_t n = 0; n < cases.size(); ++n) {
    const FakeWorker worker = Join(2 + n, pb::WORKER_ROLE_MIXED);
    Submit(n);
    ASSERT_EQ(worker.stream->said.starts_size(), 1) << n;
    pb::WorkerMessage message = worker.Message();
    cases[n].second(message, worker.last_call());
    Say(worker, message);
    ASSERT_TRUE(worker.stream->ended()) << n;
    EXPECT_TRUE(absl::IsInvalidArgument(*worker.stream->end)) << n;
    EXPECT_THAT(std::string(worker.stream->end->message()), HasSubstr(cases[n].first));
    EXPECT_EQ(worker_count(), 1u);
    EXPECT_EQ(dispatcher_.open_calls(), 0) << n;
    EXPECT_FALSE(other.stream->ended());
    Close(worker);
  }
}

TEST_F(ClusterMembersTest, TheEndOfAStreamEndsTheCallsOfItsWorker) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  Close(worker);
  EXPECT_EQ(worker_count(), 0u);
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(results_[0]));
  EXPECT_EQ(dispatcher_.open_calls(), 0);
}

TEST_F(ClusterMembersTest, AProcessThatResumesItsMembershipReplacesItAndTheOldStreamsEndTouchesNothing) {
  const FakeWorker before = Join(1, pb::WORKER_ROLE_MIXED);
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_resumes(before.stream->said.accepted().membership());
  const FakeWorker after = Join(hello);
  ASSERT_TRUE(after.stream->said.has_accepted());
  EXPECT_NE(after.stream->said.accepted().membership(), hello.resumes());
  EXPECT_TRUE(before.stream->ended()) << "the old membership is told";
  Close(before);
  ASSERT_EQ(worker_count(), 1u);
  Submit(1);
  EXPECT_EQ(after.stream->said.starts_size(), 1);
}

TEST_F(ClusterMembersTest, AGivenUpWorkerIsToldAndMayJoinAnew) {
  LoggedLines log;
  const FakeWorker silent = Join(1, pb::WORKER_ROLE_MIXED);
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(500 * kNsPerMs);
    dispatcher_.OnTimer();
  }
  Apply();
  ASSERT_TRUE(silent.stream->ended());
  EXPECT_FALSE(silent.stream->end->ok());
  EXPECT_EQ(worker_count(), 0u);
  EXPECT_THAT(log.Take(), HasSubstr("is given up after 10.0 s as a member, with 0 open calls: not heard for 1500 ms\n"
                                    "warning: no request can be served until"));
  pb::Hello hello = MakeHello(1, pb::WORKER_ROLE_MIXED);
  hello.set_resumes(silent.stream->said.accepted().membership());
  EXPECT_TRUE(Join(hello).stream->said.has_accepted());
}

TEST_F(ClusterMembersTest, AWorkerThatDrainsIsToldWhenAllThatWasPlacedBeforeHasBeenSent) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  // Placed, but not sent yet: the loop carries out the actions after all tasks of a round.
  auto job = std::make_shared<JobSpec>();
  job->id = {.high = 2, .low = 1};
  job->prompt = {1, 2, 3};
  job->sampling.max_tokens = 4;
  ASSERT_TRUE(dispatcher_.Submit(std::move(job)).ok());
  pb::WorkerMessage draining = worker.Message();
  draining.mutable_load()->set_draining(true);
  members_.OnMessage(dispatcher_, worker.stream, draining);
  EXPECT_FALSE(worker.stream->said.drain_accepted());
  Apply();
  EXPECT_EQ(worker.stream->said.starts_size(), 1);
  Say(worker, draining);
  EXPECT_TRUE(worker.stream->said.drain_accepted());
  Submit(2);
  EXPECT_EQ(worker.stream->said.starts_size(), 1);
}

TEST_F(ClusterMembersTest, AStartForAWorkerThatWasLostSinceIsPassedOver) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  auto job = std::make_shared<JobSpec>();
  job->id = {.high = 2, .low = 1};
  job->prompt = {1, 2, 3};
  job->sampling.max_tokens = 4;
  ASSERT_TRUE(dispatcher_.Submit(std::move(job)).ok());
  members_.OnClosed(dispatcher_, *worker.stream);
  Apply();
  EXPECT_EQ(worker.stream->said.starts_size(), 0);
  EXPECT_EQ(dispatcher_.open_calls(), 0);
}

TEST_F(ClusterMembersTest, TheRouterServesWhileSomeGroupOfWorkersCan) {
  const FakeWorker prefill = Join(1, pb::WORKER_ROLE_PREFILL);
  pb::Hello other = MakeHello(2, pb::WORKER_ROLE_DECODE);
  other.set_fingerprint("g");
  Join(other);
  EXPECT_THAT(serving_, ElementsAre()) << "their KV types differ";
  const FakeWorker decode = Join(3, pb::WORKER_ROLE_DECODE);
  EXPECT_THAT(serving_, ElementsAre(true));
  pb::WorkerMessage draining = prefill.Message();
  draining.mutable_load()->set_draining(true);
  Say(prefill, draining);
  EXPECT_THAT(serving_, ElementsAre(true, false));
  const FakeWorker mixed = Join(4, pb::WORKER_ROLE_MIXED);
  Close(decode);
  EXPECT_THAT(serving_, ElementsAre(true, false, true));
  Close(mixed);
  EXPECT_THAT(serving_, ElementsAre(true, false, true, false));
}

TEST_F(ClusterMembersTest, AFaultLosesItsWorkerAndTheLogNamesTheSignalAndTheRequestsOfTheStep) {
  LoggedLines lines;
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  lines.Take();
  pb::WorkerMessage message = worker.Message();
  message.mutable_fault()->set_signal(11);
  rpc::ToProto({.job = {.high = 2, .low = 1}, .attempt = 1}, message.mutable_fault()->add_at_work());
  Say(worker, message);
  EXPECT_TRUE(worker.stream->ended());
  EXPECT_EQ(worker_count(), 0u);
  // By its fault, and not by a loss of unknown cause, which would end it here.
  EXPECT_TRUE(results_.empty());
  EXPECT_EQ(dispatcher_.memberships()
                .losses[static_cast<size_t>(WorkerRole::kMixed)][static_cast<size_t>(LossReason::kFault)],
            1);
  const std::string log = lines.Take();
  EXPECT_THAT(log, HasSubstr("dies of SIGSEGV, in a step of 00000000000000020000000000000001"));
  EXPECT_THAT(log, HasSubstr("error: mixed worker host:1"));
}

TEST_F(ClusterMembersTest, ALeakIsLoggedOnceAndTheLogSaysWhatToDo) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  pb::WorkerMessage message = worker.Message();
  message.mutable_blocks()->set_free_blocks(90);
  for (const uint64_t job : {1, 7}) {
    pb::BlockHolder* holder = message.mutable_blocks()->add_holders();
    rpc::ToProto(JobKey{.job = {.high = 2, .low = job}, .attempt = 1}, holder->mutable_key());
    holder->set_hold(pb::BLOCK_HOLD_DECODING);
    holder->set_blocks(5);
    holder->set_own_blocks(5);
  }
  LoggedLines lines;
  for (int report = 1; report < kOrphanReports; ++report) Say(worker, message);
  EXPECT_EQ(lines.Take(), "");
  Say(worker, message);
  const std::string log = lines.Take();
  EXPECT_THAT(log, HasSubstr("error: mixed worker host:1 (pid 0) holds KV blocks that nobody will give back: 5 of 1 "
                             "attempt without a call, such as 00000000000000020000000000000007"));
  EXPECT_THAT(log, HasSubstr("`baton ledger`"));
  Say(worker, message);
  EXPECT_EQ(lines.Take(), "") << "it is known";
  message.mutable_blocks()->set_free_blocks(88);
  Say(worker, message);
  EXPECT_THAT(lines.Take(), HasSubstr("2 that are neither free nor cached nor held"));
  EXPECT_EQ(worker_count(), 1u) << "it serves on";
}

TEST_F(ClusterMembersTest, BlocksOfACallThatTheSameMessageEndsAreOfAnEndedCall) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  Submit(1);
  pb::WorkerMessage message = worker.Message();
  message.mutable_blocks()->set_free_blocks(100);
  rpc::ToProto(JobKey{.job = {.high = 2, .low = 1}, .attempt = 1},
               message.mutable_blocks()->add_holders()->mutable_key());
  message.mutable_blocks()->mutable_holders(0)->set_hold(pb::BLOCK_HOLD_ENDED);
  Say(worker, message);
  const WorkerBlocks* blocks = dispatcher_.block_ledger().Find(dispatcher_.registry().workers().begin()->first);
  ASSERT_NE(blocks, nullptr);
  EXPECT_EQ(blocks->entries.at(0).verdict, HolderVerdict::kCalled);
  rpc::AddEnd(worker.last_call(), absl::InvalidArgumentError("no"), &message);
  Say(worker, message);
  blocks = dispatcher_.block_ledger().Find(dispatcher_.registry().workers().begin()->first);
  EXPECT_EQ(blocks->entries.at(0).verdict, HolderVerdict::kEnding);
}

TEST_F(ClusterMembersTest, AReportOfBlocksThatCannotBeRightIsMalformed) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  pb::WorkerMessage message = worker.Message();
  message.mutable_blocks()->set_free_blocks(-1);
  Say(worker, message);
  ASSERT_TRUE(worker.stream->ended());
  EXPECT_TRUE(absl::IsInvalidArgument(*worker.stream->end));
}

TEST_F(ClusterMembersTest, AFaultInAStepOfNoAttemptsNameIsMalformed) {
  const FakeWorker worker = Join(1, pb::WORKER_ROLE_MIXED);
  pb::WorkerMessage message = worker.Message();
  message.mutable_fault()->add_at_work()->set_job("not hex");
  Say(worker, message);
  ASSERT_TRUE(worker.stream->ended());
  EXPECT_TRUE(absl::IsInvalidArgument(*worker.stream->end));
  EXPECT_EQ(worker_count(), 0u);
}

}  // namespace
}  // namespace baton::router
