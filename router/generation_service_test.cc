// The gRPC adapter over a real connection. The worker is a script, and all that lies between is the real thing.
#include "router/generation_service.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/access_log.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "router/testing/rpc_fixture.h"

namespace baton::router {
namespace {

const std::vector<TopLogprob> kTop(kMaxLogprobs, TopLogprob{.token = 1, .logprob = -1});

class GenerationServiceTest : public RpcFixture<GenerationService> {
 protected:
  using RpcFixture::RpcFixture;

  std::unique_ptr<GenerationService> MakeService(RpcRequests& requests) override {
    return std::make_unique<GenerationService>(requests);
  }

  void Serve(WorkerScript script, const UnreadOutputLimits& unread = {}) {
    stub_ = v1::GenerationService::NewStub(ServeOn(std::move(script), unread));
  }

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
    // What ReadAll has read.
    int outputs = 0;
    int32_t first_index = 0;
    std::vector<int32_t> tokens;
    std::string text;
    // The indices of tokens that have the label of other numerics.
    std::vector<int32_t> labelled;
    bool finished = false;
    int32_t other_numerics_from = -1;
    // Empty: nothing was said of being kept.
    std::string job_id;

    grpc::Status ReadAll() {
      v1::GenerateResponse response;
      while (reader->Read(&response)) {
        finished |= response.has_finished();
        if (response.finished().has_other_numerics_from()) {
          other_numerics_from = response.finished().other_numerics_from();
        }
        if (response.has_accepted()) {
          EXPECT_TRUE(job_id.empty() && tokens.empty() && text.empty()) << "it comes once, and first";
          job_id = response.accepted().job_id();
        }
        if (!response.has_output()) continue;
        ++outputs;
        text += response.output().text();
        for (const v1::OutputToken& token : response.output().tokens()) {
          EXPECT_EQ(token.index(), first_index + static_cast<int32_t>(tokens.size()));
          tokens.push_back(token.id());
          if (token.other_numerics()) labelled.push_back(token.index());
        }
      }
      return reader->Finish();
    }
  };
  std::unique_ptr<Call> Start(const std::string& prompt) {
    v1::GenerateRequest request;
    request.set_text(prompt);
    request.mutable_sampling()->set_max_tokens(1 << 20);
    auto call = std::make_unique<Call>();
    call->reader = stub_->Generate(&call->context, request);
    return call;
  }

  // No further request finds room, until the test ends or releases it.
  void FillWork() {
    Occupy(1);
    for (uint64_t i = 0; work_.Post({.id = {.high = 2, .low = i}, .bytes = 1, .run = [](const absl::Status&) {}});) ++i;
  }
  // What a call that has ended says of its retries, in milliseconds. Empty: nothing.
  static std::string PushbackOf(const grpc::ClientContext& context) {
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto pushback = trailers.find("grpc-retry-pushback-ms");
    return pushback == trailers.end() ? "" : std::string(pushback->second.data(), pushback->second.size());
  }

  std::unique_ptr<Call> StartKept(const std::string& prompt, const std::string& key = "", int32_t max_tokens = 9) {
    v1::GenerateRequest request;
    request.set_text(prompt);
    request.set_resumable(key.empty());
    request.set_idempotency_key(key);
    request.mutable_sampling()->set_max_tokens(max_tokens);
    auto call = std::make_unique<Call>();
    call->reader = stub_->Generate(&call->context, request);
    return call;
  }
  std::unique_ptr<Call> Resume(const std::string& job_id, int32_t next_index) {
    v1::ResumeRequest request;
    request.set_job_id(job_id);
    request.set_next_index(next_index);
    auto call = std::make_unique<Call>();
    call->first_index = next_index;
    call->reader = stub_->Resume(&call->context, request);
    return call;
  }

  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

TEST_F(GenerationServiceTest, WhatALateReaderLeftIsMergedIntoFewerMessages) {
  const std::vector<int32_t> tokens = Letters(kManyTokens);
  Serve({.tokens = tokens, .top = kTop, .finish = FinishReason::kLength});
  const auto call = Start("hi");
  while (worker_->started().empty()) WaitForJobs(0);
  WaitForJobs(0);
  const grpc::Status status = call->ReadAll();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(call->finished);
  EXPECT_TRUE(call->tokens == tokens) << call->tokens.size();
  EXPECT_EQ(call->text.size(), tokens.size());
  EXPECT_LT(call->outputs, static_cast<int>(tokens.size() / 4));
}

TEST_F(GenerationServiceTest, AJobWhoseClientDoesNotReadIsPausedAndGoesOnOnceItDoes) {
  const std::vector<int32_t> tokens = Letters(kManyTokens);
  constexpr int kFirst = 3 * kMaxUnreadOutputTokens / 4;
  Serve({.tokens = tokens, .top = kTop, .finish = FinishReason::kLength, .silent_after = kFirst});
  const auto call = Start("hi");
  ASSERT_TRUE(WaitForCancel());
  EXPECT_EQ(worker_->started().size(), 1u) << "the client has not read yet";
  const grpc::Status status = call->ReadAll();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(call->tokens == tokens) << call->tokens.size();
  EXPECT_EQ(call->text.size(), tokens.size());
  const std::vector<std::shared_ptr<const JobSpec>> started = worker_->started();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_EQ(started[1]->emitted, kFirst);
  EXPECT_EQ(OnlyRecord().job->pauses, 1);
}

TEST_F(GenerationServiceTest, AReaderThatFallsTooFarBehindLosesItsJobAndIsToldSo) {
  Serve({.tokens = Letters(3 * kMaxUnreadOutputTokens), .top = kTop, .finish = FinishReason::kNone});
  const auto call = Start("hi");
  ASSERT_TRUE(WaitForCancel());
  const grpc::Status status = call->ReadAll();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_FALSE(status.error_details().empty()) << "without RetryInfo";
  EXPECT_GE(call->tokens.size(), kMaxUnreadOutputTokens) << "what fitted is still delivered";
  EXPECT_LT(call->tokens.size(), 2 * kMaxUnreadOutputTokens);
  EXPECT_EQ(worker_->cancelled(), 1);
  const RequestRecord record = OnlyRecord();
  EXPECT_EQ(record.outcome, RequestOutcome::kRefused);
  EXPECT_EQ(GetRefusalReason(record.status), RefusalReason::kSlowReader);
  ASSERT_NE(record.job, nullptr);
  EXPECT_EQ(record.job->attempts, 1);
}

TEST_F(GenerationServiceTest, TokensWithMuchBesideThemAreBoundedByTheirBytes) {
  const std::vector<TopLogprob> much(1'000);
  const size_t bytes_of_all = 1'000 * much.size() * sizeof(TopLogprob);
  ASSERT_GT(bytes_of_all, 3 * kMaxUnreadOutputBytes);
  Serve({.tokens = Letters(1'000), .top = much, .finish = FinishReason::kNone});
  const auto call = Start("hi");
  ASSERT_TRUE(WaitForCancel());
  EXPECT_EQ(call->ReadAll().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LT(call->tokens.size(), 1'000u);
}

TEST_F(GenerationServiceTest, AStreamThatNobodyReadsIsCutSomeTimeAfterTheEndOfItsJob) {
  Serve({.tokens = Letters(kManyTokens), .top = kTop, .finish = FinishReason::kLength}, {.ended_ms = 80});
  const auto call = Start("hi");
  while (worker_->started().empty()) WaitForJobs(0);
  // Stopping the server waits for all calls: without the cut, for this one until the test times out.
  server_.server->Shutdown();
  const grpc::Status status = call->ReadAll();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(call->finished);
  EndServer();
  const RequestRecord record = OnlyRecord();
  EXPECT_EQ(record.outcome, RequestOutcome::kRefused) << "it was not answered";
  EXPECT_EQ(GetRefusalReason(record.status), RefusalReason::kSlowReader);
}

TEST_F(GenerationServiceTest, ARequestWhoseClientLeavesBeforeItHasTheEndIsRecordedAsCancelled) {
  Serve({.tokens = Letters(kManyTokens), .top = kTop, .finish = FinishReason::kLength});
  const auto call = Start("hi");
  while (worker_->started().empty()) WaitForJobs(0);
  call->context.TryCancel();
  call->ReadAll();
  EXPECT_EQ(OnlyRecord().outcome, RequestOutcome::kCancelled);
}

TEST_F(GenerationServiceTest, WhenAllStreamsHoldTooMuchTheWorstIsCut) {
  Serve({.tokens = Letters(kManyTokens), .top = kTop, .finish = FinishReason::kNone}, {.total_bytes = 40'000});
  const auto call = Start("hi");
  ASSERT_TRUE(WaitForCancel());
  EXPECT_EQ(call->ReadAll().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const RequestRecord record = OnlyRecord();
  EXPECT_EQ(record.outcome, RequestOutcome::kRefused) << "it was the router that ended it";
  EXPECT_EQ(GetRefusalReason(record.status), RefusalReason::kSlowReader);
}

TEST_F(GenerationServiceTest, ARequestThatIsCancelledWhileItWaitsToBeReadNeverReachesALoop) {
  Serve({.tokens = Letters(1)});
  Occupy(1);
  const auto call = Start("hi");
  ASSERT_TRUE(WaitFor([this] { return work_.queued_small_bytes() > 0; }));
  call->context.TryCancel();
  EXPECT_EQ(call->ReadAll().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(WaitFor([this] { return work_.queued_small_bytes() == 0; })) << "the request still waits";
  server_.server->Shutdown();
  EndServer();
  release_.Notify();
  EXPECT_TRUE(worker_->started().empty());
}

TEST_F(GenerationServiceTest, ARequestIsRecordedOnceWhetherItIsServedOrRefused) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  EXPECT_TRUE(Start("hi")->ReadAll().ok());
  EXPECT_EQ(Start("")->ReadAll().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(WaitFor([this] { return observer_.records().size() == 2; }));
  const RequestRecord served = observer_.records()[0];
  EXPECT_EQ(served.outcome, RequestOutcome::kOk);
  EXPECT_EQ(served.finish, FinishReason::kLength);
  EXPECT_EQ(served.output_tokens, 3);
  EXPECT_GT(served.ttft_ns, 0);
  ASSERT_NE(served.job, nullptr);
  EXPECT_EQ(served.job->decode_worker, "worker");
  const PhaseTimes& phases = served.phases;
  EXPECT_EQ(phases.queue_ns + phases.admission_ns + phases.prefill_ns + phases.transfer_ns + phases.decode_ns +
                served.network_ns,
            served.total_ns);
  EXPECT_GT(phases.queue_ns, 0) << "it was read before it was submitted";
  const RequestRecord refused = observer_.records()[1];
  EXPECT_EQ(refused.outcome, RequestOutcome::kRefused);
  EXPECT_EQ(refused.output_tokens, 0);
  EXPECT_EQ(refused.job, nullptr);
  EXPECT_EQ(refused.network_ns, refused.total_ns);
}

TEST_F(GenerationServiceTest, ARequestThatIsCancelledIsRecordedAsSuch) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone});
  const auto call = Start("hi");
  WaitForJobs(1);
  call->context.TryCancel();
  call->ReadAll();
  ASSERT_TRUE(WaitFor([this] { return observer_.records().size() == 1; }));
  EXPECT_EQ(observer_.records()[0].outcome, RequestOutcome::kCancelled);
}

TEST_F(GenerationServiceTest, AWaitingRequestEndsAtItsDeadline) {
  Serve({.tokens = Letters(1)});
  Occupy(1);
  v1::TokenizeRequest request;
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  EXPECT_EQ(stub_->Tokenize(&context, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server_.server->Shutdown();
  EndServer();
  release_.Notify();
}

TEST_F(GenerationServiceTest, SmallRequestsAreServedWhileALargeOneIsRead) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  Occupy(kMaxSmallRequestBytes + 1);
  const auto call = Start("hi");
  EXPECT_TRUE(call->ReadAll().ok());
  EXPECT_EQ(call->text, "xxx");
  release_.Notify();
}

// A call that nobody is at the other end of.
class NoCall final : public RpcAnswer::Call {
 public:
  void OnPiece(RpcAnswer&) override {}
  void Cut() override {}
};

class ErrorForm final : public AnswerForm {
 public:
  grpc::ByteBuffer Chunk(const GenerationDelta&) override { return {}; }
  AnswerEnd End(absl::Span<const GenerationDelta>, const GenerationFinished&) override { return {}; }
  AnswerEnd End(const absl::Status& status) override { return {.messages = {}, .status = ToClientStatus(status)}; }
};

// All that a refusal costs the router besides gRPC: the request's record, its tenant, its trace, the answer.
TEST_F(GenerationServiceTest, ARefusalForWantOfRoomTakesFarLessThanAMillisecond) {
  constexpr int kRefusals = 1'000;
  Serve({.tokens = Letters(1)});
  FillWork();
  const grpc::ServerContext context;
  const std::string prompt(kMaxSmallRequestBytes / 2, 'x');
  const grpc::Slice slice(prompt);
  const grpc::ByteBuffer message(&slice, 1);
  const auto began = std::chrono::steady_clock::now();
  for (int n = 0; n < kRefusals; ++n) {
    const auto answer =
        std::make_shared<RpcAnswer>(std::make_shared<NoCall>(), requests_->unread(), std::make_unique<ErrorForm>());
    requests_->Queue(context, answer, message, [](RpcRequests::Incoming, grpc::ByteBuffer&) { ADD_FAILURE(); });
    EXPECT_EQ(answer->Next().end->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    answer->Leave();
  }
  const double mean_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kRefusals;
  std::printf("unoptimized: %.1f us for the refusal of a request that finds no room to be read\n", mean_us);
  // Ten times what it takes on a slow machine.
  EXPECT_LT(mean_us, 1'000);
  release_.Notify();
}

TEST_F(GenerationServiceTest, ARequestForWhichThereIsNoRoomIsToldWhenToComeBack) {
  Serve({.tokens = Letters(1)});
  FillWork();
  const auto call = Start("hi");
  const grpc::Status refused = call->ReadAll();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(refused.error_details().empty());
  EXPECT_EQ(PushbackOf(call->context), absl::StrCat(kUnknownRetryAfterMs));
  v1::DetokenizeResponse response;
  grpc::ClientContext context;
  const grpc::Status unary = stub_->Detokenize(&context, {}, &response);
  EXPECT_EQ(unary.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(unary.error_details().empty());
  EXPECT_EQ(PushbackOf(context), absl::StrCat(kUnknownRetryAfterMs));
  release_.Notify();
}

TEST_F(GenerationServiceTest, RetriesOfGrpcItselfComeWhenTheRefusalSaysAndNotWhenTheClientWouldHave) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  grpc::ChannelArguments arguments = rpc::ClientChannelArguments();
  arguments.SetServiceConfigJSON(R"({"methodConfig": [{"name": [{}], "retryPolicy": {
      "maxAttempts": 2, "initialBackoff": "600s", "maxBackoff": "600s", "backoffMultiplier": 1,
      "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]})");
  stub_ = v1::GenerationService::NewStub(
      grpc::CreateCustomChannel(server_.address, grpc::InsecureChannelCredentials(), arguments));
  FillWork();
  const auto call = Start("hi");
  // gRPC tries again only while somebody reads.
  std::thread reader([&call] { EXPECT_TRUE(call->ReadAll().ok()); });
  EXPECT_TRUE(WaitFor([this] { return observer_.records().size() == 1; }));
  release_.Notify();
  EXPECT_TRUE(WaitFor([this] { return observer_.records().size() == 2; })) << "it did not come again";
  if (observer_.records().size() != 2) call->context.TryCancel();
  reader.join();
  EXPECT_EQ(call->text, "xxx");
  EXPECT_EQ(observer_.records().at(0).outcome, RequestOutcome::kRefused);
}

TEST_F(GenerationServiceTest, AnErrorThatComesAgainHasNoTimeForIt) {
  Serve({});
  const auto call = Start("");
  EXPECT_EQ(call->ReadAll().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(PushbackOf(call->context), "");
}

TEST_F(GenerationServiceTest, TokenizesAndDetokenizes) {
  Serve({});
  v1::TokenizeRequest text;
  text.set_text("xx");
  v1::TokenizeResponse tokens;
  {
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->Tokenize(&context, text, &tokens).ok());
    EXPECT_EQ(std::vector<int32_t>(tokens.token_ids().begin(), tokens.token_ids().end()), Letters(2));
  }
  v1::DetokenizeRequest ids;
  *ids.mutable_token_ids() = tokens.token_ids();
  v1::DetokenizeResponse response;
  {
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->Detokenize(&context, ids, &response).ok());
    EXPECT_EQ(response.text(), "xx");
  }
  EXPECT_EQ(response.tokens_size(), 0);
  ids.set_return_tokens(true);
  {
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->Detokenize(&context, ids, &response).ok());
    EXPECT_EQ(std::vector<std::string>(response.tokens().begin(), response.tokens().end()),
              (std::vector<std::string>{"x", "x"}));
  }
  ids.add_token_ids(-1);
  grpc::ClientContext context;
  EXPECT_EQ(stub_->Detokenize(&context, ids, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GenerationServiceTest, OnlyARequestThatAsksToBeKeptIsToldItsJobsIdBeforeItsOutput) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  const auto plain = Start("hi");
  EXPECT_TRUE(plain->ReadAll().ok());
  EXPECT_EQ(plain->job_id, "");
  const auto kept = StartKept("hi");
  EXPECT_TRUE(kept->ReadAll().ok());
  EXPECT_EQ(kept->job_id.size(), 32u);
  EXPECT_EQ(kept->text, "xxx");
  EXPECT_TRUE(kept->finished);
}

TEST_F(GenerationServiceTest, AClientThatLeftGetsTheRestOfItsStream) {
  Serve({.tokens = Letters(5), .finish = FinishReason::kNone});
  const auto first = StartKept("hi");
  v1::GenerateResponse accepted;
  ASSERT_TRUE(first->reader->Read(&accepted));
  first->context.TryCancel();
  EXPECT_EQ(first->ReadAll().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(WaitFor([this] { return observer_.records().size() == 1; }));
  EXPECT_EQ(worker_->cancelled(), 0) << "the job runs on";
  const auto again = Resume(accepted.accepted().job_id(), 2);
  v1::GenerateResponse response;
  std::string text;
  while (text.size() < 3 && again->reader->Read(&response)) text += response.output().text();
  EXPECT_EQ(text, "xxx");
  again->context.TryCancel();
  again->ReadAll();
  EXPECT_EQ(worker_->started().size(), 1u);
}

TEST_F(GenerationServiceTest, AnOutputOfAnyLengthIsResumedAsFastAsItsClientReads) {
  const std::vector<int32_t> tokens = Letters(3 * kMaxUnreadOutputTokens);
  Serve({.tokens = tokens, .top = kTop, .finish = FinishReason::kLength});
  const auto first = StartKept("hi", "", 1 << 20);
  const grpc::Status status = first->ReadAll();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(first->tokens == tokens) << first->tokens.size();
  const auto again = Resume(first->job_id, 1);
  EXPECT_TRUE(again->ReadAll().ok());
  EXPECT_EQ(again->tokens.size(), tokens.size() - 1);
  EXPECT_EQ(again->text.size(), tokens.size() - 1);
  EXPECT_TRUE(again->finished);
}

TEST_F(GenerationServiceTest, ACallThatFollowsAnEarlierOnesJobIsNoRequestOfItsOwn) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  const auto first = StartKept("hi", "key");
  EXPECT_TRUE(first->ReadAll().ok());
  const auto same = StartKept("hi", "key");
  EXPECT_TRUE(same->ReadAll().ok());
  EXPECT_EQ(same->job_id, first->job_id);
  EXPECT_EQ(same->text, "xxx");
  EXPECT_EQ(StartKept("other", "key")->ReadAll().error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Resume(std::string(32, '0'), 0)->ReadAll().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Resume("not hex", 0)->ReadAll().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Resume(first->job_id, 4)->ReadAll().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Resume(first->job_id, 3)->ReadAll().ok());
  ASSERT_TRUE(WaitFor([this] { return observer_.records().size() == 5; }));
  EXPECT_EQ(observer_.records()[0].outcome, RequestOutcome::kOk);
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(observer_.records()[i].outcome, RequestOutcome::kRefused);
  EXPECT_EQ(worker_->started().size(), 1u);
}

// Worker 1 dies after two outputs, and the other one has the same weights.
class OtherNumericsServiceTest : public GenerationServiceTest {
 protected:
  OtherNumericsServiceTest() : GenerationServiceTest(DispatcherOptions{.placing = {.other_numerics_wait_ms = 0}}) {}

  void ServeTwo() {
    Serve({.tokens = Letters(5), .finish = FinishReason::kLength, .fingerprint = "exact/weights:w", .lost_after = 2});
    worker_->Join(2, "fp32/weights:w");
  }
  std::unique_ptr<Call> Start(bool allow, bool resumable) {
    v1::GenerateRequest request;
    request.set_text("hi");
    request.set_allow_other_numerics(allow);
    request.set_resumable(resumable);
    request.mutable_sampling()->set_max_tokens(5);
    auto call = std::make_unique<Call>();
    call->reader = stub_->Generate(&call->context, request);
    return call;
  }
};

TEST_F(OtherNumericsServiceTest, AClientThatAllowsThemIsToldFromWhichOutputOnTheyAre) {
  ServeTwo();
  const auto call = Start(/*allow=*/true, /*resumable=*/false);
  EXPECT_TRUE(call->ReadAll().ok());
  EXPECT_EQ(call->text, "xxxxx");
  EXPECT_EQ(call->labelled, (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(call->other_numerics_from, 2);
  const RequestRecord record = OnlyRecord();
  EXPECT_NE(AccessLine(record).find(" other_numerics_from=2 "), std::string::npos) << AccessLine(record);
}

TEST_F(OtherNumericsServiceTest, AKeptJobIsLabelledAlsoForWhoResumesIt) {
  ServeTwo();
  const auto call = Start(/*allow=*/true, /*resumable=*/true);
  EXPECT_TRUE(call->ReadAll().ok());
  EXPECT_EQ(call->labelled, (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(call->other_numerics_from, 2);
  const auto again = Resume(call->job_id, 1);
  EXPECT_TRUE(again->ReadAll().ok());
  EXPECT_EQ(again->labelled, (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(again->other_numerics_from, 2);
}

TEST_F(OtherNumericsServiceTest, AClientThatDoesNotAllowThemGetsNoSuchOutput) {
  ServeTwo();
  const auto call = Start(/*allow=*/false, /*resumable=*/false);
  v1::GenerateResponse response;
  std::string text;
  while (text.size() < 2 && call->reader->Read(&response)) text += response.output().text();
  EXPECT_EQ(text, "xx");
  WaitForJobs(1);
  EXPECT_EQ(worker_->started().size(), 1u);
  call->context.TryCancel();
  EXPECT_EQ(call->ReadAll().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GenerationServiceTest, TheKeyOfARequestWithAnotherSeedOrTenantIsThatOfAnotherRequest) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  EXPECT_TRUE(StartKept("hi", "key")->ReadAll().ok());
  const auto call = [this](auto change) {
    v1::GenerateRequest request;
    request.set_text("hi");
    request.set_idempotency_key("key");
    request.mutable_sampling()->set_max_tokens(9);
    change(request);
    Call call;
    call.reader = stub_->Generate(&call.context, request);
    return call.ReadAll().error_code();
  };
  EXPECT_EQ(call([](auto&) {}), grpc::StatusCode::OK);
  EXPECT_EQ(call([](auto& r) { r.mutable_sampling()->set_seed(1); }), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(call([](auto& r) { r.add_stop("x"); }), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(call([](auto& r) { r.set_tenant("alice"); }), grpc::StatusCode::OK) << "another tenant's key";
  EXPECT_EQ(call([](auto& r) { r.set_idempotency_key(std::string(kMaxIdempotencyKeyBytes + 1, 'k')); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(worker_->started().size(), 2u);
}

}  // namespace
}  // namespace baton::router
