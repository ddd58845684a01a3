// vLLM's engine service over a real connection. The worker is a script, and all that lies between is the real thing.
#include "gateway/vllm_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "gateway/vllm_request.h"
#include "gtest/gtest.h"
#include "router/error_details.h"
#include "router/testing/rpc_fixture.h"

namespace baton::gateway {
namespace {

using router::Letters;
using router::WorkerScript;
using vllm::grpc::engine::GenerateRequest;
using vllm::grpc::engine::GenerateResponse;

constexpr int32_t kContextLength = 512;

GenerateRequest TokenRequest(const std::string& id, bool is_stream) {
  GenerateRequest request;
  request.set_request_id(id);
  request.set_stream(is_stream);
  for (const uint32_t token : {5u, 6u, 7u}) request.mutable_tokenized()->add_input_ids(token);
  return request;
}

// The field at fault of a request that `change` has changed; "none" without an error.
std::string WrongVllmField(const std::function<void(GenerateRequest&)>& change) {
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  change(request);
  const auto read = ReadVllmRequest(request, kContextLength);
  return read.ok() ? "none" : router::GetFieldError(read.status())->field;
}

TEST(VllmRequestTest, UnsetFieldsTakeTheValuesOfVllm) {
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  const auto read = ReadVllmRequest(request, kContextLength);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<router::TokenPrompt>(read->prompt).ids, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(read->sampling.temperature, 1.0F);
  EXPECT_EQ(read->sampling.top_p, 1.0F);
  EXPECT_EQ(read->sampling.top_k, 0);
  EXPECT_EQ(read->sampling.repetition_penalty, 1.0F);
  EXPECT_EQ(read->sampling.max_tokens, kContextLength);
  EXPECT_EQ(read->sampling.seed, std::nullopt);
  EXPECT_EQ(read->sampling.logprobs, std::nullopt);
}

TEST(VllmRequestTest, FieldsThatAreSetAreRead) {
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  auto& params = *request.mutable_sampling_params();
  params.set_temperature(0);
  params.set_top_p(0.5);
  params.set_top_k(4);
  params.set_max_tokens(9);
  params.set_min_tokens(2);
  params.set_seed(7);
  params.set_logprobs(3);
  params.set_ignore_eos(true);
  params.add_stop("x");
  params.add_stop_token_ids(8);
  (*params.mutable_logit_bias())[3] = -1;
  const auto read = ReadVllmRequest(request, kContextLength);
  ASSERT_TRUE(read.ok()) << read.status();
  const router::SamplingRequest& sampling = read->sampling;
  EXPECT_EQ(sampling.temperature, 0.0F);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.top_k, 4);
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_EQ(sampling.seed, 7u);
  EXPECT_EQ(sampling.logprobs, 3);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(read->stop, std::vector<std::string>{"x"});
  EXPECT_EQ(sampling.stop_token_ids, std::vector<int32_t>{8});
  ASSERT_EQ(sampling.logit_bias.size(), 1u);
  EXPECT_EQ(sampling.logit_bias[0].bias, -1.0F);
}

TEST(VllmRequestTest, WhatIsNotBuiltOrWrongIsRefusedByItsName) {
  EXPECT_EQ(WrongVllmField([](auto& r) { r.clear_input(); }), "input");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.mutable_tokenized()->add_input_ids(1u << 31); }), "tokenized.input_ids");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.mutable_kv_transfer_params(); }), "kv_transfer_params");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.set_kv_transfer_params_json(""); }), "kv_transfer_params_json");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.mutable_mm_inputs(); }), "mm_inputs");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.add_extra_mm_inputs(); }), "extra_mm_inputs");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.mutable_media_refs(); }), "media_refs");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.set_data_parallel_rank(1); }), "data_parallel_rank");
  EXPECT_EQ(WrongVllmField([](auto& r) { r.set_data_parallel_rank(0); }), "none");
  const auto sampling = [](const std::function<void(vllm::grpc::engine::SamplingParams&)>& change) {
    return WrongVllmField([&](GenerateRequest& r) { change(*r.mutable_sampling_params()); });
  };
  EXPECT_EQ(sampling([](auto& s) { s.set_n(2); }), "sampling_params.n");
  EXPECT_EQ(sampling([](auto& s) { s.set_n(1); }), "none");
  EXPECT_EQ(sampling([](auto& s) { s.set_prompt_logprobs(0); }), "sampling_params.prompt_logprobs");
  EXPECT_EQ(sampling([](auto& s) { s.set_truncate_prompt_tokens(5); }), "sampling_params.truncate_prompt_tokens");
  EXPECT_EQ(sampling([](auto& s) { s.set_structural_tag(""); }), "sampling_params.structural_tag");
  EXPECT_EQ(sampling([](auto& s) { s.set_seed(-1); }), "sampling_params.seed");
  EXPECT_EQ(sampling([](auto& s) { s.set_max_tokens(1u << 31); }), "sampling_params.max_tokens");
  EXPECT_EQ(sampling([](auto& s) { s.set_top_k(UINT32_MAX); }), "sampling_params.top_k");
}

TEST(VllmRequestTest, AConstraintIsAGrammar) {
  const auto grammar = [](const std::function<void(vllm::grpc::engine::SamplingParams&)>& change) {
    GenerateRequest message;
    message.mutable_tokenized()->add_input_ids(1);
    change(*message.mutable_sampling_params());
    return ReadVllmRequest(message, 100).value().sampling.grammar;
  };
  const auto of = [](GrammarKind kind, std::string text) {
    return OutputGrammar{.kind = kind, .text = std::move(text)};
  };
  EXPECT_EQ(grammar([](auto&) {}), OutputGrammar());
  EXPECT_EQ(grammar([](auto& s) { s.set_json_schema("{}"); }), of(GrammarKind::kJsonSchema, "{}"));
  EXPECT_EQ(grammar([](auto& s) { s.set_regex("a+"); }), of(GrammarKind::kRegex, "a+"));
  EXPECT_EQ(grammar([](auto& s) { s.set_grammar("root ::= \"a\""); }), of(GrammarKind::kEbnf, "root ::= \"a\""));
  EXPECT_EQ(grammar([](auto& s) { s.set_json_object(true); }), of(GrammarKind::kJsonObject, ""));
  EXPECT_EQ(grammar([](auto& s) { s.set_json_object(false); }), OutputGrammar());
  EXPECT_EQ(grammar([](auto& s) { s.mutable_choice()->add_choices("x"); }), of(GrammarKind::kChoice, "[\"x\"]"));
}

class VllmServiceTest : public router::RpcFixture<VllmService> {
 protected:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<GenerateResponse>> reader;
    int chunks = 0;
    std::vector<int32_t> chunk_ids;
    vllm::grpc::engine::GenerateComplete complete;

    grpc::Status ReadAll() {
      GenerateResponse response;
      while (reader->Read(&response)) {
        for (const uint32_t id : response.chunk().token_ids()) chunk_ids.push_back(static_cast<int32_t>(id));
        chunks += response.has_chunk() ? 1 : 0;
        if (response.has_complete()) complete = response.complete();
      }
      return reader->Finish();
    }
    std::vector<int32_t> complete_ids() const { return {complete.output_ids().begin(), complete.output_ids().end()}; }
  };

  std::unique_ptr<VllmService> MakeService(router::RpcRequests& requests) override {
    return std::make_unique<VllmService>(requests, views_, MonotonicClock(), [this] { return is_serving_.load(); });
  }
  void Serve(WorkerScript script) { stub_ = VllmEngineApi::NewStub(ServeOn(std::move(script))); }
  std::unique_ptr<Call> Start(const GenerateRequest& request) {
    auto call = std::make_unique<Call>();
    call->reader = stub_->Generate(&call->context, request);
    return call;
  }
  void Abort(const std::vector<std::string>& names) {
    vllm::grpc::engine::AbortRequest request;
    for (const std::string& name : names) request.add_request_ids(name);
    vllm::grpc::engine::AbortResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->Abort(&context, request, &response).ok());
  }

  router::ViewBoard views_;
  std::atomic<bool> is_serving_ = true;
  std::unique_ptr<VllmEngineApi::Stub> stub_;
};

TEST_F(VllmServiceTest, AStreamHasChunksAndThenAllOfTheOutput) {
  Serve(
      {.tokens = Letters(5), .logprob = -0.5F, .top = {{.token = 1, .logprob = -1}}, .finish = FinishReason::kLength});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  request.mutable_sampling_params()->set_logprobs(1);
  const auto call = Start(request);
  const grpc::Status status = call->ReadAll();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GE(call->chunks, 1);
  EXPECT_EQ(call->chunk_ids, Letters(5));
  EXPECT_EQ(call->complete_ids(), Letters(5));
  EXPECT_EQ(call->complete.finish_reason(), "length");
  EXPECT_EQ(call->complete.prompt_tokens(), 3u);
  EXPECT_EQ(call->complete.completion_tokens(), 5u);
}

TEST_F(VllmServiceTest, WhatIsNoStreamIsOneMessage) {
  Serve({.tokens = Letters(3 * kMaxUnreadOutputTokens), .logprob = -0.5F, .finish = FinishReason::kStop});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/false);
  request.mutable_sampling_params()->set_logprobs(0);
  request.mutable_sampling_params()->set_max_tokens(1 << 20);
  const auto call = Start(request);
  const grpc::Status status = call->ReadAll();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(call->chunks, 0);
  EXPECT_EQ(call->complete_ids().size(), 3 * kMaxUnreadOutputTokens);
  EXPECT_EQ(call->complete.output_logprobs().token_logprobs_size(), static_cast<int>(3 * kMaxUnreadOutputTokens));
  EXPECT_EQ(call->complete.finish_reason(), "stop");
}

TEST_F(VllmServiceTest, AStopStringThatEndedTheOutputIsNamed) {
  Serve({.tokens = Letters(8), .finish = FinishReason::kLength});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  request.mutable_sampling_params()->add_stop("never");
  request.mutable_sampling_params()->add_stop("xxx");
  const auto call = Start(request);
  ASSERT_TRUE(call->ReadAll().ok());
  EXPECT_EQ(call->complete.finish_reason(), "stop");
  EXPECT_EQ(call->complete.matched_stop_str(), "xxx");
  EXPECT_EQ(call->complete_ids(), Letters(3));
}

TEST_F(VllmServiceTest, AnAbortedRequestEndsWithWhatItHas) {
  Serve({.tokens = Letters(4), .finish = FinishReason::kNone});
  const auto aborted = Start(TokenRequest("a", /*is_stream=*/true));
  const auto other = Start(TokenRequest("b", /*is_stream=*/true));
  WaitForJobs(2);
  Abort({"unknown", "a"});
  ASSERT_TRUE(aborted->ReadAll().ok());
  EXPECT_EQ(aborted->complete.finish_reason(), "abort");
  EXPECT_EQ(aborted->complete_ids(), Letters(4));
  WaitForJobs(1);
  Abort({"a", "b"});
  ASSERT_TRUE(other->ReadAll().ok());
  WaitForJobs(0);
}

TEST_F(VllmServiceTest, ARequestWhoseClientLeavesIsCancelledAndNotAborted) {
  Serve({.tokens = Letters(1), .finish = FinishReason::kNone});
  const auto call = Start(TokenRequest("a", /*is_stream=*/true));
  WaitForJobs(1);
  call->context.TryCancel();
  EXPECT_EQ(call->ReadAll().error_code(), grpc::StatusCode::CANCELLED);
  WaitForJobs(0);
}

TEST_F(VllmServiceTest, ErrorsAreTheStatusOfTheCallAndNameItsFields) {
  Serve({.tokens = Letters(1)});
  GenerateRequest wrong = TokenRequest("a", /*is_stream=*/true);
  wrong.mutable_sampling_params()->set_top_p(2);
  const grpc::Status status = Start(wrong)->ReadAll();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(status.error_message().starts_with("sampling_params.top_p: ")) << status.error_message();
  GenerateRequest unbuilt = TokenRequest("a", /*is_stream=*/true);
  unbuilt.mutable_sampling_params()->set_n(2);
  EXPECT_EQ(Start(unbuilt)->ReadAll().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(VllmServiceTest, ItIsHealthyWhileTheWorkersServe) {
  Serve({});
  const auto is_healthy = [this] {
    grpc::ClientContext context;
    vllm::grpc::engine::HealthCheckResponse response;
    EXPECT_TRUE(stub_->HealthCheck(&context, {}, &response).ok());
    return response.healthy();
  };
  EXPECT_TRUE(is_healthy());
  is_serving_ = false;
  EXPECT_FALSE(is_healthy());
}

TEST(VllmAbortsTest, ANameIsItsTenantsAndEndsWithItsRequest) {
  VllmAborts aborts;
  auto alices = aborts.Add("alice", "r", {.high = 1, .low = 1});
  const auto again = aborts.Add("alice", "r", {.high = 1, .low = 2});
  const auto bobs = aborts.Add("bob", "r", {.high = 1, .low = 3});
  EXPECT_EQ(aborts.Abort("alice", "r").size(), 2u);
  EXPECT_TRUE(alices->is_aborted && again->is_aborted && !bobs->is_aborted);
  EXPECT_TRUE(aborts.Abort("", "r").empty());
  alices.reset();
  EXPECT_EQ(aborts.size(), 2u);
  EXPECT_EQ(aborts.Abort("alice", "r").size(), 1u);
}

}  // namespace
}  // namespace baton::gateway
