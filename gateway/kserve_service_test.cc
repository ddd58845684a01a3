// KServe's protocol over a real connection. The worker is a script, and all that lies between is the real thing.
#include "gateway/kserve_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "gateway/kserve_model.h"
#include "gtest/gtest.h"
#include "router/refusal_reason.h"
#include "router/testing/rpc_fixture.h"

namespace baton::gateway {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;
using router::kManyTokens;
using router::Letters;
using router::RequestOutcome;
using router::WorkerScript;

ModelInferRequest Request(const std::string& id, bool is_stream, int max_tokens = 1 << 20) {
  ModelInferRequest request;
  request.set_model_name("tiny");
  request.set_id(id);
  auto* const text = request.add_inputs();
  text->set_name(kTextInput);
  text->set_datatype(kBytesType);
  text->add_shape(1);
  text->mutable_contents()->add_bytes_contents("hi");
  auto* const stream = request.add_inputs();
  stream->set_name(kStreamInput);
  stream->set_datatype(kBoolType);
  stream->add_shape(1);
  stream->mutable_contents()->add_bool_contents(is_stream);
  (*request.mutable_parameters())["max_tokens"].set_int64_param(max_tokens);
  return request;
}

void AskFor(const char* input, ModelInferRequest& request) {
  auto* const flag = request.add_inputs();
  flag->set_name(input);
  flag->set_datatype(kBoolType);
  flag->add_shape(1);
  flag->mutable_contents()->add_bool_contents(true);
}

// The bytes of an output.
std::string RawOf(const ModelInferResponse& response, const std::string& output) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() == output) return response.raw_output_contents(i);
  }
  return "no such output";
}

std::string Element(const ModelInferResponse& response, const std::string& output) {
  return RawOf(response, output).substr(4);
}

// The elements are of type BYTES and shorter than 64 KiB each.
std::vector<std::string> Elements(const ModelInferResponse& response, const std::string& output) {
  const std::string raw = RawOf(response, output);
  std::vector<std::string> elements;
  for (size_t at = 0; at < raw.size(); at += 4 + elements.back().size()) {
    const size_t size = static_cast<uint8_t>(raw.at(at)) + 256 * size_t{static_cast<uint8_t>(raw.at(at + 1))};
    elements.push_back(raw.substr(at + 4, size));
  }
  return elements;
}

std::vector<float> Floats(const ModelInferResponse& response, const std::string& output) {
  const std::string raw = RawOf(response, output);
  std::vector<float> floats(raw.size() / sizeof(float));
  std::memcpy(floats.data(), raw.data(), floats.size() * sizeof(float));
  return floats;
}

bool IsFinal(const ModelInferResponse& response) {
  return response.parameters().at("triton_final_response").bool_param();
}

class KserveServiceTest : public router::RpcFixture<KserveService> {
 protected:
  using Stream = grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>;
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
  };

  std::unique_ptr<KserveService> MakeService(router::RpcRequests& requests) override {
    return std::make_unique<KserveService>(requests, [this] { return is_serving_.load(); });
  }
  void Serve(WorkerScript script, const router::UnreadOutputLimits& unread = {},
             int64_t max_idle_stream_ms = kMaxIdleStreamMs) {
    stub_ = inference::GRPCInferenceService::NewStub(ServeOn(std::move(script), unread, max_idle_stream_ms));
  }
  std::unique_ptr<Call> Open() {
    auto call = std::make_unique<Call>();
    call->stream = stub_->ModelStreamInfer(&call->context);
    return call;
  }
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response) {
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, request, response);
  }
  // Waits until the server has done with all calls.
  void Shutdown() {
    server_.server->Shutdown();
    EndServer();
  }

  std::atomic<bool> is_serving_ = true;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(KserveServiceTest, ModelInferGivesTheWholeOutputAtOnce) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kLength});
  ModelInferRequest request = Request("a", /*is_stream=*/false);
  AskFor(kReturnFinishReason, request);
  AskFor(kReturnTokenIds, request);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.id(), "a");
  EXPECT_EQ(response.model_name(), "tiny");
  EXPECT_EQ(Element(response, kTextOutput), "hixxx") << "the prompt goes before it";
  EXPECT_EQ(Element(response, kFinishReasonOutput), "length");
  EXPECT_EQ(response.outputs(2).shape(0), 3);
  AskFor(kExcludeInput, request);
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_EQ(Element(response, kTextOutput), "xxx");
}

using Texts = std::vector<std::string>;

TEST_F(KserveServiceTest, EveryOutputOfAWholeAnswerHasAnElementForEachOfSeveralTexts) {
  Serve({.tokens = Letters(3), .logprob = -0.5F, .finish = FinishReason::kLength});
  ModelInferRequest request = Request("a", /*is_stream=*/false);
  (*request.mutable_parameters())["n"].set_int64_param(2);
  for (const char* input : {kReturnFinishReason, kReturnOutputTokens, kReturnTokenIds, kReturnInputTokens,
                            kReturnCumulativeLogprob, kReturnLogprobs}) {
    AskFor(input, request);
  }
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Elements(response, kTextOutput), (Texts{"hixxx", "hixxx"}));
  EXPECT_EQ(Elements(response, kFinishReasonOutput), (Texts{"length", "length"}));
  EXPECT_EQ(Floats(response, kCumulativeLogprobOutput), (std::vector<float>{-1.5F, -1.5F}));
  EXPECT_EQ(Elements(response, kLogprobsOutput), (Texts{"null", "null"})) << "nobody said how many";
  EXPECT_EQ(RawOf(response, kOutputTokensOutput), std::string("\3\0\0\0\3\0\0\0", 8));
  for (const auto& output : response.outputs()) {
    const bool is_of_both = output.name() == kTokenIdsOutput;
    EXPECT_EQ(output.shape(0), is_of_both ? 6 : output.name() == kInputTokensOutput ? 1 : 2) << output.name();
  }
}

TEST_F(KserveServiceTest, EveryResponseOfAStreamHasAnElementForEachOfSeveralTexts) {
  Serve({.tokens = Letters(5), .logprob = -0.5F, .finish = FinishReason::kStop});
  const auto call = Open();
  ModelInferRequest request = Request("a", /*is_stream=*/true);
  (*request.mutable_parameters())["n"].set_int64_param(3);
  AskFor(kReturnFinishReason, request);
  AskFor(kReturnCumulativeLogprob, request);
  ASSERT_TRUE(call->stream->Write(request));
  call->stream->WritesDone();
  Texts texts(3);
  ModelStreamInferResponse message;
  ModelInferResponse last;
  while (call->stream->Read(&message)) {
    EXPECT_EQ(message.error_message(), "");
    last = message.infer_response();
    const Texts pieces = Elements(last, kTextOutput);
    ASSERT_EQ(pieces.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      texts[i] += pieces[i];
      EXPECT_EQ(Floats(last, kCumulativeLogprobOutput).at(i), -0.5F * static_cast<float>(texts[i].size()));
      EXPECT_TRUE(texts[i].size() == 5 || Elements(last, kFinishReasonOutput).at(i) == "None");
    }
  }
  EXPECT_TRUE(call->stream->Finish().ok());
  EXPECT_TRUE(IsFinal(last));
  EXPECT_EQ(texts, Texts(3, "xxxxx"));
  EXPECT_EQ(Elements(last, kFinishReasonOutput), Texts(3, "stop"));
}

TEST_F(KserveServiceTest, LogProbabilitiesAreTheJsonOfTritonsBackend) {
  const int32_t letter = Letters(1).front();
  Serve({.tokens = Letters(2),
         .logprob = -0.5F,
         .top = {{.token = letter + 1, .logprob = -0.25F}, {.token = letter, .logprob = -0.5F}},
         .finish = FinishReason::kLength});
  ModelInferRequest request = Request("a", /*is_stream=*/false);
  (*request.mutable_parameters())["logprobs"].set_int64_param(2);
  AskFor(kReturnLogprobs, request);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::string place = absl::StrCat(R"({")", letter, R"(":{"logprob":-0.5,"rank":2,"decoded_token":"x"},")",
                                         letter + 1, R"(":{"logprob":-0.25,"rank":1,"decoded_token":"y"}})");
  EXPECT_EQ(Elements(response, kLogprobsOutput), Texts{absl::StrCat("[", place, ",", place, "]")});
  EXPECT_EQ(RawOf(response, kCumulativeLogprobOutput), "no such output");
}

TEST_F(KserveServiceTest, AWholeAnswerMayBeLongerThanWhatAStreamKeeps) {
  Serve({.tokens = Letters(3 * kMaxUnreadOutputTokens), .finish = FinishReason::kLength});
  ModelInferResponse response;
  const grpc::Status status = Infer(Request("a", /*is_stream=*/false), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Element(response, kTextOutput).size(), 2 + 3 * kMaxUnreadOutputTokens);
}

TEST_F(KserveServiceTest, AStreamEndsWithWhatItsClientAskedFor) {
  Serve({.tokens = Letters(3), .finish = FinishReason::kStop});
  const auto call = Open();
  const auto read_all = [&call](const ModelInferRequest& request, size_t text_bytes) {
    EXPECT_TRUE(call->stream->Write(request));
    std::vector<ModelInferResponse> responses;
    std::string text;
    ModelStreamInferResponse response;
    while (text.size() < text_bytes || (text_bytes == 3 && !IsFinal(responses.back()))) {
      if (!call->stream->Read(&response)) break;
      EXPECT_EQ(response.error_message(), "");
      responses.push_back(response.infer_response());
      if (responses.back().outputs_size() > 0) text += Element(responses.back(), kTextOutput);
    }
    return responses;
  };
  ModelInferRequest empty_final = Request("1", /*is_stream=*/true);
  (*empty_final.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  const auto with_empty = read_all(empty_final, 3);
  ASSERT_GE(with_empty.size(), 2u);
  EXPECT_TRUE(IsFinal(with_empty.back()));
  EXPECT_EQ(with_empty.back().outputs_size(), 0);
  EXPECT_FALSE(IsFinal(with_empty.front()));
  ModelInferRequest reason = Request("2", /*is_stream=*/true);
  AskFor(kReturnFinishReason, reason);
  const auto with_reason = read_all(reason, 3);
  EXPECT_EQ(Element(with_reason.front(), kFinishReasonOutput), "None");
  EXPECT_EQ(Element(with_reason.back(), kFinishReasonOutput), "stop");
  EXPECT_EQ(with_reason.back().id(), "2");
  call->stream->WritesDone();
  ModelStreamInferResponse more;
  EXPECT_FALSE(call->stream->Read(&more));
  EXPECT_TRUE(call->stream->Finish().ok());
}

TEST_F(KserveServiceTest, TheRequestsOfAStreamAreAnsweredByTheirIdsAndAnErrorEndsOnlyItsOwn) {
  Serve({.tokens = Letters(4), .finish = FinishReason::kLength});
  const auto call = Open();
  constexpr int kRequests = 20;
  for (int i = 0; i < kRequests; ++i) {
    ModelInferRequest request = Request(std::to_string(i), /*is_stream=*/i % 3 != 0);
    if (i % 5 == 4) request.set_model_name("other");
    ASSERT_TRUE(call->stream->Write(request));
  }
  call->stream->WritesDone();
  std::map<std::string, std::string> texts;
  std::map<std::string, std::string> errors;
  ModelStreamInferResponse response;
  while (call->stream->Read(&response)) {
    const std::string& id = response.infer_response().id();
    if (response.error_message().empty()) {
      texts[id] += Element(response.infer_response(), kTextOutput);
    } else {
      errors[id] = response.error_message();
    }
  }
  EXPECT_TRUE(call->stream->Finish().ok());
  EXPECT_EQ(texts.size() + errors.size(), static_cast<size_t>(kRequests));
  for (const auto& [id, text] : texts) EXPECT_EQ(text, std::stoi(id) % 3 == 0 ? "hixxxx" : "xxxx") << id;
  EXPECT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors["4"], "NOT_FOUND: model other is not served here; tiny is");
}

TEST_F(KserveServiceTest, NoMoreThanTheBoundOfRequestsOfAStreamRunAtOnce) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone});
  const auto call = Open();
  for (size_t i = 0; i < kMaxRequestsPerStream + 1; ++i) {
    ASSERT_TRUE(call->stream->Write(Request(std::to_string(i), /*is_stream=*/true)));
  }
  WaitForJobs(kMaxRequestsPerStream);
  EXPECT_EQ(requests_->unread().stream_count(), kMaxRequestsPerStream);
  // A second stream has a bound of its own.
  const auto other = Open();
  ASSERT_TRUE(other->stream->Write(Request("x", /*is_stream=*/true)));
  WaitForJobs(kMaxRequestsPerStream + 1);
  call->context.TryCancel();
  other->context.TryCancel();
  WaitForJobs(0);
}

TEST_F(KserveServiceTest, ARequestBeyondTheBoundIsReadWhenAnotherHasEnded) {
  Serve({.tokens = Letters(2), .finish = FinishReason::kLength});
  const auto call = Open();
  constexpr size_t kRequests = 3 * kMaxRequestsPerStream;
  size_t ended = 0;
  std::thread reader([&] {
    ModelStreamInferResponse response;
    while (call->stream->Read(&response)) ended += IsFinal(response.infer_response()) ? 1 : 0;
  });
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(call->stream->Write(Request(std::to_string(i), /*is_stream=*/false)));
  }
  call->stream->WritesDone();
  reader.join();
  EXPECT_TRUE(call->stream->Finish().ok());
  EXPECT_EQ(ended, kRequests);
}

TEST_F(KserveServiceTest, AStreamThatItsClientLeavesEndsAllItsRequests) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone});
  auto call = Open();
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(call->stream->Write(Request(id, /*is_stream=*/true)));
  WaitForJobs(3);
  call->context.TryCancel();
  WaitForJobs(0);
  ASSERT_TRUE(WaitFor([this] { return observer_.records().size() == 3; }));
  for (const auto& record : observer_.records()) EXPECT_EQ(record.outcome, RequestOutcome::kCancelled);
  call.reset();
  Shutdown();
}

TEST_F(KserveServiceTest, ACallOfModelInferThatIsLeftEndsItsRequest) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone});
  grpc::ClientContext context;
  ModelInferResponse response;
  std::thread call([&] { stub_->ModelInfer(&context, Request("a", /*is_stream=*/false), &response); });
  WaitForJobs(1);
  context.TryCancel();
  call.join();
  WaitForJobs(0);
  ASSERT_TRUE(WaitFor([this] { return observer_.records().size() == 1; }));
  EXPECT_EQ(observer_.records()[0].outcome, RequestOutcome::kCancelled);
}

TEST_F(KserveServiceTest, AnIdleStreamDoesNotHoldUpTheEndOfTheServer) {
  Serve({.tokens = Letters(1)});
  const auto idle = Open();
  ASSERT_TRUE(WaitFor([&] {
    ModelInferResponse response;
    return Infer(Request("a", /*is_stream=*/false), &response).ok();
  }));
  rpc::StopGrpcServer(*server_.server, 0);
  EndServer();
  ModelStreamInferResponse response;
  EXPECT_FALSE(idle->stream->Read(&response));
}

TEST_F(KserveServiceTest, AStreamWithoutARequestEndsAndSaysWhatToDoWhileOneWithARequestGoesOn) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone}, {}, /*max_idle_stream_ms=*/1'000);
  const auto busy = Open();
  ASSERT_TRUE(busy->stream->Write(Request("a", /*is_stream=*/true)));
  WaitForJobs(1);
  // It does not even say what its requests are.
  const auto idle = Open();
  ModelStreamInferResponse response;
  EXPECT_FALSE(idle->stream->Read(&response));
  const grpc::Status status = idle->stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the call has had no request for too long: send the next one on a new call");
  WaitForJobs(1);
  ASSERT_TRUE(busy->stream->Write(Request("b", /*is_stream=*/true)));
  WaitForJobs(2);
  busy->context.TryCancel();
  WaitForJobs(0);
}

TEST_F(KserveServiceTest, AStreamWhoseRequestsAreAnsweredEndsWhenNoOtherComes) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kLength}, {}, /*max_idle_stream_ms=*/1'000);
  const auto call = Open();
  ASSERT_TRUE(call->stream->Write(Request("a", /*is_stream=*/false)));
  ModelStreamInferResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_FALSE(call->stream->Read(&response));
  EXPECT_EQ(call->stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  Shutdown();
}

TEST_F(KserveServiceTest, ASlowReaderOfAStreamLosesTheRequestThatHoldsTooMuchAndIsTold) {
  Serve({.tokens = Letters(3 * kMaxUnreadOutputTokens), .finish = FinishReason::kNone});
  const auto call = Open();
  ModelInferRequest request = Request("a", /*is_stream=*/true);
  AskFor(kReturnTokenIds, request);
  ASSERT_TRUE(call->stream->Write(request));
  ASSERT_TRUE(WaitForCancel());
  call->stream->WritesDone();
  ModelStreamInferResponse response;
  std::string error;
  while (call->stream->Read(&response)) error = response.error_message();
  EXPECT_TRUE(call->stream->Finish().ok());
  EXPECT_TRUE(error.starts_with("RESOURCE_EXHAUSTED: ")) << error;
  EXPECT_EQ(router::GetRefusalReason(OnlyRecord().status), router::RefusalReason::kSlowReader);
}

TEST_F(KserveServiceTest, AStreamThatNobodyReadsIsCutSomeTimeAfterTheEndOfItsRequests) {
  Serve({.tokens = Letters(kManyTokens), .finish = FinishReason::kLength}, {.ended_ms = 80});
  const auto call = Open();
  // All of them together are more than a connection takes whose client does not read.
  for (int i = 0; i < 16; ++i) {
    ModelInferRequest request = Request(std::to_string(i), /*is_stream=*/false);
    AskFor(kReturnTokenIds, request);
    ASSERT_TRUE(call->stream->Write(request));
  }
  // Stopping the server waits for all calls: without the cut, for this one until the test times out.
  Shutdown();
  ModelStreamInferResponse response;
  while (call->stream->Read(&response)) {
  }
  EXPECT_FALSE(call->stream->Finish().ok());
}

TEST_F(KserveServiceTest, WhatIsNoRequestIsAnErrorOfItsOwn) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kLength});
  const auto call = Open();
  ModelInferRequest cut = Request("cut", /*is_stream=*/false);
  // The name of an error is shown up to a bound, which here lies within a character.
  cut.add_inputs()->set_name("n" + [] {
    std::string umlauts;
    for (int i = 0; i < 100; ++i) umlauts += "ü";
    return umlauts;
  }());
  cut.mutable_inputs(2)->set_datatype(kBytesType);
  ASSERT_TRUE(call->stream->Write(cut));
  ModelStreamInferResponse response;
  ASSERT_TRUE(call->stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "cut");
  EXPECT_TRUE(IsValidUtf8(response.error_message()));
  EXPECT_TRUE(response.error_message().starts_with("INVALID_ARGUMENT: nü")) << response.error_message();
  ASSERT_TRUE(call->stream->Write(Request("good", /*is_stream=*/false)));
  ASSERT_TRUE(call->stream->Read(&response));
  EXPECT_EQ(Element(response.infer_response(), kTextOutput), "hix") << "the call goes on";
}

TEST_F(KserveServiceTest, ARequestHasNoMoreTimeThanItsTimeout) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone});
  ModelInferRequest request = Request("a", /*is_stream=*/false);
  (*request.mutable_parameters())["timeout"].set_int64_param(20'000);
  ModelInferResponse response;
  EXPECT_EQ(Infer(request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(KserveServiceTest, TheModelIsReadyWhileTheWorkersServe) {
  Serve({});
  const auto ready = [this](const std::string& name, const std::string& version) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    inference::ModelReadyResponse response;
    EXPECT_TRUE(stub_->ModelReady(&context, request, &response).ok());
    return response.ready();
  };
  EXPECT_TRUE(ready("tiny", ""));
  EXPECT_TRUE(ready("tiny", "1"));
  EXPECT_FALSE(ready("tiny", "2"));
  EXPECT_FALSE(ready("other", ""));
  is_serving_ = false;
  EXPECT_FALSE(ready("tiny", ""));
}

}  // namespace
}  // namespace baton::gateway
