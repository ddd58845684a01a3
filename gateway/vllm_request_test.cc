// Reading requests of vLLM's engine service. tests/e2e/test_vllm_grpc.py has the stubs of its clients and a real
// cluster.
#include "gateway/vllm_request.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using vllm::grpc::engine::GenerateRequest;

constexpr int32_t kContextLength = 512;

GenerateRequest ThreeTokens() {
  GenerateRequest request;
  for (const uint32_t token : {5u, 6u, 7u}) request.mutable_tokenized()->add_input_ids(token);
  return request;
}

// The field at fault of a request that `change` has changed; "none" without an error.
std::string WrongVllmField(const std::function<void(GenerateRequest&)>& change) {
  GenerateRequest request = ThreeTokens();
  change(request);
  const auto read = ReadVllmRequest(request, kContextLength);
  return read.ok() ? "none" : router::GetFieldError(read.status())->field;
}

TEST(VllmRequestTest, UnsetFieldsTakeTheValuesOfVllm) {
  GenerateRequest request = ThreeTokens();
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
  EXPECT_EQ(read->sampling.prompt_logprobs, std::nullopt);
  EXPECT_EQ(read->choices, 1);
}

TEST(VllmRequestTest, FieldsThatAreSetAreRead) {
  GenerateRequest request = ThreeTokens();
  auto& params = *request.mutable_sampling_params();
  params.set_temperature(0);
  params.set_top_p(0.5);
  params.set_top_k(4);
  params.set_max_tokens(9);
  params.set_min_tokens(2);
  params.set_seed(7);
  params.set_logprobs(3);
  params.set_prompt_logprobs(0);
  params.set_n(4);
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
  EXPECT_EQ(sampling.prompt_logprobs, 0);
  EXPECT_EQ(read->choices, 4);
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
  EXPECT_EQ(sampling([](auto& s) { s.set_n(kMaxChoices); }), "none");
  EXPECT_EQ(sampling([](auto& s) { s.set_n(kMaxChoices + 1); }), "sampling_params.n");
  EXPECT_EQ(sampling([](auto& s) { s.set_n(UINT32_MAX); }), "sampling_params.n");
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

}  // namespace
}  // namespace baton::gateway
