// vLLM's engine service over a real connection. The worker is a script, and all that lies between is the real thing.
#include "gateway/vllm_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/testing/rpc_fixture.h"

namespace baton::gateway {
namespace {

using router::Letters;
using router::WorkerScript;
using vllm::grpc::engine::GenerateRequest;
using vllm::grpc::engine::GenerateResponse;

GenerateRequest TokenRequest(const std::string& id, bool is_stream) {
  GenerateRequest request;
  request.set_request_id(id);
  request.set_stream(is_stream);
  for (const uint32_t token : {5u, 6u, 7u}) request.mutable_tokenized()->add_input_ids(token);
  return request;
}

class VllmServiceTest : public router::RpcFixture<VllmService> {
 protected:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<GenerateResponse>> reader;
    int chunks = 0;
    std::vector<int32_t> chunk_ids;
    // The first chunk, and the last `complete`.
    vllm::grpc::engine::GenerateStreamChunk first;
    vllm::grpc::engine::GenerateComplete complete;
    // The ids of the chunks of each index, and the `complete` messages of all.
    std::map<uint32_t, std::vector<int32_t>> ids_of;
    std::vector<vllm::grpc::engine::GenerateComplete> completes;

    grpc::Status ReadAll() {
      GenerateResponse response;
      while (reader->Read(&response)) Take(response);
      return reader->Finish();
    }
    void Take(const GenerateResponse& response) {
      if (response.has_complete()) {
        complete = response.complete();
        completes.push_back(complete);
        return;
      }
      const auto& chunk = response.chunk();
      if (++chunks == 1) first = chunk;
      for (const auto& ended : completes)
        EXPECT_NE(ended.index(), chunk.index()) << "a chunk behind the end of its index";
      for (const uint32_t id : chunk.token_ids()) {
        chunk_ids.push_back(static_cast<int32_t>(id));
        ids_of[chunk.index()].push_back(static_cast<int32_t>(id));
      }
    }
    // Sorted.
    std::vector<uint32_t> ended_indices() const {
      std::vector<uint32_t> indices;
      for (const auto& each : completes) indices.push_back(each.index());
      std::sort(indices.begin(), indices.end());
      return indices;
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
  // A call that ends well, with all of its messages.
  std::unique_ptr<Call> ReadWhole(const GenerateRequest& request) {
    auto call = Start(request);
    const grpc::Status status = call->ReadAll();
    EXPECT_TRUE(status.ok()) << status.error_message();
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
  const auto call = ReadWhole(request);
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
  const auto call = ReadWhole(request);
  EXPECT_EQ(call->chunks, 0);
  EXPECT_EQ(call->complete_ids().size(), 3 * kMaxUnreadOutputTokens);
  EXPECT_EQ(call->complete.output_logprobs().token_logprobs_size(), static_cast<int>(3 * kMaxUnreadOutputTokens));
  EXPECT_EQ(call->complete.finish_reason(), "stop");
}

TEST_F(VllmServiceTest, OfSeveralOutputsEachHasItsIndexItsChunksAndOneEndBehindThem) {
  Serve({.tokens = Letters(8), .finish = FinishReason::kLength});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  request.mutable_sampling_params()->set_n(3);
  request.mutable_sampling_params()->add_stop("xxxxx");
  const auto call = ReadWhole(request);
  EXPECT_EQ(call->ended_indices(), (std::vector<uint32_t>{0, 1, 2}));
  for (const auto& complete : call->completes) {
    EXPECT_EQ(call->ids_of[complete.index()], Letters(5));
    EXPECT_EQ(complete.output_ids_size(), 5);
    EXPECT_EQ(complete.completion_tokens(), 5u);
    EXPECT_EQ(complete.prompt_tokens(), 3u);
    EXPECT_EQ(complete.finish_reason(), "stop");
    EXPECT_EQ(complete.matched_stop_str(), "xxxxx");
  }
}

TEST_F(VllmServiceTest, SeveralOutputsThatAreNoStreamAreOneMessageEachInTheirOrder) {
  constexpr size_t kTokens = 2 * kMaxUnreadOutputTokens;
  Serve({.tokens = Letters(kTokens), .logprob = -0.5F, .finish = FinishReason::kLength});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/false);
  request.mutable_sampling_params()->set_n(5);
  request.mutable_sampling_params()->set_logprobs(0);
  request.mutable_sampling_params()->set_max_tokens(1 << 20);
  const auto call = ReadWhole(request);
  EXPECT_EQ(call->chunks, 0);
  ASSERT_EQ(call->completes.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(call->completes[i].index(), i);
    EXPECT_EQ(call->completes[i].output_ids_size(), static_cast<int>(kTokens));
    EXPECT_EQ(call->completes[i].output_logprobs().token_logprobs_size(), static_cast<int>(kTokens));
    EXPECT_EQ(call->completes[i].finish_reason(), "length");
  }
  EXPECT_TRUE(WaitFor([this] { return requests_->unread().stream_count() == 0; }));
  EXPECT_EQ(requests_->unread().total_bytes(), 0);
}

TEST_F(VllmServiceTest, EachOfSeveralOutputsThatIsAbortedEndsWithWhatItHas) {
  Serve({.tokens = Letters(4), .finish = FinishReason::kNone});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/true);
  request.mutable_sampling_params()->set_n(2);
  const auto call = Start(request);
  GenerateResponse response;
  while (call->chunk_ids.size() < 8 && call->reader->Read(&response)) call->Take(response);
  Abort({"a"});
  ASSERT_TRUE(call->ReadAll().ok());
  EXPECT_EQ(call->ended_indices(), (std::vector<uint32_t>{0, 1}));
  for (const auto& complete : call->completes) {
    EXPECT_EQ(complete.finish_reason(), "abort");
    EXPECT_EQ(complete.output_ids_size(), 4);
  }
  WaitForJobs(0);
}

TEST_F(VllmServiceTest, LogProbabilitiesOfThePromptComeWithTheFirstChunkOrTheWholeAnswer) {
  Serve({.tokens = Letters(3), .prompt_logprob = -0.25F, .finish = FinishReason::kLength});
  for (const bool is_stream : {true, false}) {
    GenerateRequest request = TokenRequest("a", is_stream);
    request.mutable_sampling_params()->set_prompt_logprobs(0);
    const auto call = Start(request);
    const grpc::Status status = call->ReadAll();
    ASSERT_TRUE(status.ok()) << status.error_message();
    const auto& logprobs = is_stream ? call->first.input_logprobs() : call->complete.input_logprobs();
    EXPECT_EQ(std::vector<uint32_t>(logprobs.token_ids().begin(), logprobs.token_ids().end()),
              (std::vector<uint32_t>{5, 6, 7}));
    ASSERT_EQ(logprobs.token_logprobs_size(), 3);
    EXPECT_FALSE(logprobs.token_logprobs(0).has_value());
    EXPECT_EQ(logprobs.token_logprobs(1).value(), -0.25F);
    EXPECT_EQ(logprobs.token_logprobs(2).value(), -0.25F);
    EXPECT_EQ(logprobs.top_logprobs_size(), 0);
    EXPECT_EQ(call->complete.has_input_logprobs(), !is_stream);
    request.mutable_sampling_params()->set_prompt_logprobs(2);
    const auto with_top = Start(request);
    ASSERT_TRUE(with_top->ReadAll().ok());
    EXPECT_EQ((is_stream ? with_top->first.input_logprobs() : with_top->complete.input_logprobs()).top_logprobs_size(),
              3)
        << "the first token's are empty, as are those of this worker";
  }
}

TEST_F(VllmServiceTest, EachOfSeveralOutputsHasTheLogProbabilitiesOfThePrompt) {
  Serve({.tokens = Letters(3), .prompt_logprob = -0.25F, .finish = FinishReason::kLength});
  GenerateRequest request = TokenRequest("a", /*is_stream=*/false);
  request.mutable_sampling_params()->set_prompt_logprobs(0);
  request.mutable_sampling_params()->set_n(2);
  const auto call = ReadWhole(request);
  EXPECT_EQ(call->ended_indices(), (std::vector<uint32_t>{0, 1}));
  for (const auto& complete : call->completes) {
    ASSERT_EQ(complete.input_logprobs().token_logprobs_size(), 3);
    EXPECT_EQ(complete.input_logprobs().token_logprobs(2).value(), -0.25F);
  }
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
  unbuilt.mutable_sampling_params()->set_structural_tag("{}");
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
