#include "router/generation_wire.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/limits.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::router {
namespace {

// The detail of the error; a default one, and a failure, when there is none of this type.
template <typename Detail>
Detail DetailOf(const grpc::Status& status) {
  google::rpc::Status rich;
  Detail detail;
  EXPECT_TRUE(rich.ParseFromString(status.error_details()));
  EXPECT_EQ(rich.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(rich.message(), status.error_message());
  EXPECT_EQ(rich.details_size(), 1);
  EXPECT_TRUE(rich.details_size() == 1 && rich.details(0).UnpackTo(&detail));
  return detail;
}

TEST(GenerationWireTest, AFieldThatTheClientDidNotSetHasNoValue) {
  const GenerationRequest request = FromProto(v1::GenerateRequest());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(request.prompt));
  EXPECT_FALSE(request.allow_other_numerics);
  EXPECT_FALSE(request.sampling.temperature.has_value());
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_FALSE(request.sampling.max_tokens.has_value());
  EXPECT_FALSE(request.sampling.logprobs.has_value());
}

TEST(GenerationWireTest, EveryFieldOfARequestArrives) {
  v1::GenerateRequest proto;
  proto.set_model("m");
  proto.set_text("hello");
  proto.add_stop("one");
  proto.add_stop("two");
  proto.set_return_kv_digest(true);
  proto.set_tenant("t");
  proto.set_priority(-3);
  proto.set_allow_other_numerics(true);
  v1::SamplingParams& sampling = *proto.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_top_k(1);
  sampling.set_top_p(0.2f);
  sampling.set_min_p(0.3f);
  sampling.set_repetition_penalty(1.4f);
  sampling.set_frequency_penalty(0.5f);
  sampling.set_presence_penalty(0.6f);
  sampling.set_seed(7);
  sampling.set_max_tokens(8);
  sampling.set_min_tokens(9);
  sampling.set_ignore_eos(true);
  sampling.add_stop_token_ids(10);
  sampling.set_logprobs(0);
  for (const int32_t id : {12, 11}) {
    v1::TokenBias& bias = *sampling.add_logit_bias();
    bias.set_id(id);
    bias.set_bias(static_cast<float>(id) / 2);
  }

  const GenerationRequest request = FromProto(std::move(proto));
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(std::get<TextPrompt>(request.prompt).text, "hello");
  EXPECT_EQ(request.stop, (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(request.want_kv_digest);
  EXPECT_EQ(request.tenant, "t");
  EXPECT_EQ(request.priority, -3);
  EXPECT_TRUE(request.allow_other_numerics);
  EXPECT_EQ(request.sampling.temperature, 0.0f);
  EXPECT_EQ(request.sampling.top_k, 1);
  EXPECT_EQ(request.sampling.top_p, 0.2f);
  EXPECT_EQ(request.sampling.min_p, 0.3f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.4f);
  EXPECT_EQ(request.sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(request.sampling.presence_penalty, 0.6f);
  EXPECT_EQ(request.sampling.seed, 7u);
  EXPECT_EQ(request.sampling.max_tokens, 8);
  EXPECT_EQ(request.sampling.min_tokens, 9);
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_EQ(request.sampling.stop_token_ids, std::vector<int32_t>{10});
  EXPECT_EQ(request.sampling.logprobs, 0);
  EXPECT_EQ(request.sampling.logit_bias,
            (std::vector<TokenBias>{{.token = 12, .bias = 6}, {.token = 11, .bias = 5.5f}}));
}

TEST(GenerationWireTest, TextGetsSpecialTokensUnlessTheClientSaysNo) {
  const auto adds = [](v1::GenerateRequest proto) {
    proto.set_text("hello");
    return std::get<TextPrompt>(FromProto(std::move(proto)).prompt).add_special_tokens;
  };
  v1::GenerateRequest generate;
  EXPECT_TRUE(adds(generate));
  generate.set_add_special_tokens(true);
  EXPECT_TRUE(adds(generate));
  generate.set_add_special_tokens(false);
  EXPECT_FALSE(adds(generate));
  v1::TokenizeRequest tokenize;
  EXPECT_TRUE(TakeText(tokenize).add_special_tokens);
  tokenize.set_add_special_tokens(false);
  EXPECT_FALSE(TakeText(tokenize).add_special_tokens);
}

TEST(GenerationWireTest, ChatMessagesAndTokenIdsArriveInOrder) {
  v1::GenerateRequest chat;
  for (const char* content : {"a", "b"}) {
    v1::ChatMessage* message = chat.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(content);
  }
  const GenerationRequest request = FromProto(std::move(chat));
  const auto& messages = std::get<ChatPrompt>(request.prompt).messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].role, "user");
  EXPECT_EQ(messages[0].content, "a");
  EXPECT_EQ(messages[1].content, "b");

  v1::GenerateRequest tokens;
  tokens.mutable_token_ids()->add_ids(3);
  tokens.mutable_token_ids()->add_ids(1);
  EXPECT_EQ(std::get<TokenPrompt>(FromProto(std::move(tokens)).prompt).ids, (std::vector<int32_t>{3, 1}));
}

TEST(GenerationWireTest, APromptIsInTheOutputThatHasIt) {
  GenerationDelta delta;
  delta.tokens.push_back({.index = 0, .token = 5});
  v1::Output output;
  ToProto(delta, &output);
  EXPECT_FALSE(output.has_prompt());
  auto prompt = std::make_shared<GenerationPrompt>();
  prompt->text = "ab";
  prompt->tokens = {3, 4};
  delta.prompt = prompt;
  ToProto(delta, &output);
  EXPECT_EQ(output.prompt().text(), "ab");
  EXPECT_EQ(output.prompt().tokens_size(), 0);
  prompt->logprobs = std::make_shared<const std::vector<PromptLogprob>>(
      std::vector<PromptLogprob>{{.logprob = 0, .rank = 2, .top = {{.token = 9, .logprob = -0.25f}}}});
  ToProto(delta, &output);
  ASSERT_EQ(output.prompt().tokens_size(), 2);
  EXPECT_EQ(output.prompt().tokens(0).id(), 3);
  EXPECT_FALSE(output.prompt().tokens(0).has_logprob());
  const v1::PromptToken& second = output.prompt().tokens(1);
  EXPECT_EQ(second.id(), 4);
  EXPECT_TRUE(second.has_logprob()) << "0 is a log-probability too";
  EXPECT_EQ(second.rank(), 2);
  ASSERT_EQ(second.top_logprobs_size(), 1);
  EXPECT_EQ(second.top_logprobs(0).id(), 9);
}

TEST(GenerationWireTest, TheLargestPromptFitsTheMessageThatAClientTakesByDefault) {
  for (const int top : {0, 1, kMaxLogprobs}) {
    const size_t tokens = kMaxPromptLogprobBytes / PromptLogprobBytes(1, static_cast<size_t>(top));
    constexpr int32_t kLargestId = 262'143;
    const PromptLogprob each = {
        .logprob = -1,
        .rank = kLargestId,
        .top = std::vector<TopLogprob>(static_cast<size_t>(top), TopLogprob{.token = kLargestId, .logprob = -1})};
    auto prompt = std::make_shared<GenerationPrompt>();
    prompt->tokens.assign(tokens, kLargestId);
    prompt->logprobs = std::make_shared<const std::vector<PromptLogprob>>(tokens - 1, each);
    GenerationDelta delta;
    delta.prompt = prompt;
    EXPECT_LT(Serialize(delta).Length(), size_t{4} << 20) << top;
  }
}

TEST(GenerationWireTest, ADeltaIsOneOutputWithLogProbabilitiesOnlyWhenTheRequestAskedForThem) {
  GenerationDelta delta{.text = "ab"};
  delta.tokens.push_back({.index = 0, .token = 5, .logprob = -0.5f, .top = {{.token = 5, .logprob = -0.5f}}});
  delta.tokens.push_back({.index = 1, .token = 6, .other_numerics = true});
  v1::Output output;
  ToProto(delta, &output);
  EXPECT_EQ(output.text(), "ab");
  ASSERT_EQ(output.tokens_size(), 2);
  EXPECT_EQ(output.tokens(1).index(), 1);
  EXPECT_EQ(output.tokens(1).id(), 6);
  EXPECT_FALSE(output.tokens(0).other_numerics());
  EXPECT_TRUE(output.tokens(1).other_numerics());
  EXPECT_FALSE(output.tokens(0).has_logprob());
  delta.has_logprobs = true;
  ToProto(delta, &output);
  EXPECT_EQ(output.tokens(0).logprob(), -0.5f);
  ASSERT_EQ(output.tokens(0).top_logprobs_size(), 1);
  EXPECT_EQ(output.tokens(0).top_logprobs(0).id(), 5);
  EXPECT_EQ(output.tokens(0).top_logprobs(0).logprob(), -0.5f);
  EXPECT_TRUE(output.tokens(1).has_logprob()) << "0 is a log-probability too";
}

TEST(GenerationWireTest, AMessageHoldsNothingOfTheOneBefore) {
  GenerationDelta first{.text = std::string(10'000, 'x'), .has_logprobs = true};
  first.tokens.push_back({.index = 0, .token = 5, .logprob = -0.5f, .top = {{.token = 5, .logprob = -0.5f}}});
  first.tokens.push_back({.index = 1, .token = 6});
  GenerationDelta second{.text = "b"};
  second.tokens.push_back({.index = 2, .token = 7});
  for (const GenerationDelta& delta : {first, second, second}) {
    grpc::ByteBuffer bytes = Serialize(delta);
    v1::GenerateResponse response;
    ASSERT_TRUE(grpc::SerializationTraits<v1::GenerateResponse>::Deserialize(&bytes, &response).ok());
    v1::Output expected;
    ToProto(delta, &expected);
    EXPECT_EQ(response.output().SerializeAsString(), expected.SerializeAsString());
    EXPECT_EQ(response.output().text(), delta.text);
    EXPECT_EQ(response.output().tokens_size(), static_cast<int>(delta.tokens.size()));
    EXPECT_EQ(response.output().tokens(0).has_logprob(), delta.has_logprobs);
  }
}

TEST(GenerationWireTest, EveryFieldOfTheEndArrives) {
  GenerationFinished end;
  end.id = {.high = 1, .low = 2};
  end.seed = 3;
  end.reason = FinishReason::kStop;
  end.usage = {.prompt_tokens = 4, .output_tokens = 5, .cached_prompt_tokens = 6};
  end.kv_digest = "d";
  end.other_numerics_from = 11;
  end.timing.phases = {.queue_ns = 1 * kNsPerMs,
                       .admission_ns = 2 * kNsPerMs,
                       .prefill_ns = 3 * kNsPerMs,
                       .transfer_ns = 4 * kNsPerMs,
                       .decode_ns = 5 * kNsPerMs};
  end.timing.network_ns = 6 * kNsPerMs;
  end.timing.total_ns = 21 * kNsPerMs;
  end.decode.transfer_bytes = 7;
  end.decode.read_ns = 8 * kNsPerMs;
  end.decode.digest_ns = 9 * kNsPerMs;
  end.decode.transfer_tail_ns = 10 * kNsPerMs;

  const v1::Finished proto = ToProto(end).finished();
  EXPECT_EQ(proto.job_id(), end.id.ToHex());
  EXPECT_EQ(proto.seed(), 3u);
  EXPECT_EQ(proto.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(proto.usage().prompt_tokens(), 4);
  EXPECT_EQ(proto.usage().output_tokens(), 5);
  EXPECT_EQ(proto.usage().cached_prompt_tokens(), 6);
  EXPECT_EQ(proto.kv_digest(), "d");
  EXPECT_EQ(proto.other_numerics_from(), 11);
  EXPECT_EQ(proto.timing().queue_ms(), 1);
  EXPECT_EQ(proto.timing().admission_ms(), 2);
  EXPECT_EQ(proto.timing().prefill_ms(), 3);
  EXPECT_EQ(proto.timing().transfer_ms(), 4);
  EXPECT_EQ(proto.timing().decode_ms(), 5);
  EXPECT_EQ(proto.timing().network_ms(), 6);
  EXPECT_EQ(proto.timing().total_ms(), 21);
  EXPECT_EQ(proto.transfer().bytes(), 7);
  EXPECT_EQ(proto.transfer().read_ms(), 8);
  EXPECT_EQ(proto.transfer().digest_ms(), 9);
  EXPECT_EQ(proto.transfer().tail_ms(), 10);
  end.other_numerics_from.reset();
  EXPECT_FALSE(ToProto(end).finished().has_other_numerics_from());
  end.reason = FinishReason::kLength;
  EXPECT_EQ(ToProto(end).finished().reason(), v1::FINISH_REASON_LENGTH);
}

TEST(GenerationWireTest, AnErrorOfAFieldCarriesABadRequest) {
  const grpc::Status status = ToClientStatus(FieldViolation("sampling.top_p", "must be in (0, 1]: not 2"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "sampling.top_p: must be in (0, 1]: not 2");
  const auto detail = DetailOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(detail.field_violations_size(), 1);
  EXPECT_EQ(detail.field_violations(0).field(), "sampling.top_p");
  EXPECT_EQ(detail.field_violations(0).description(), "must be in (0, 1]: not 2");
}

TEST(GenerationWireTest, ResourceExhaustedCarriesTheTimeToWait) {
  const grpc::Status status = ToClientStatus(WithRetryAfter(absl::ResourceExhaustedError("the queue is full")));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "the queue is full");
  const auto delay = DetailOf<google::rpc::RetryInfo>(status).retry_delay();
  EXPECT_EQ(delay.seconds(), 0);
  EXPECT_EQ(delay.nanos(), 500'000'000);
}

TEST(GenerationWireTest, OtherErrorsKeepCodeAndMessageAndHaveNoDetail) {
  const grpc::Status status = ToClientStatus(WithRetryAfter(absl::UnavailableError("no worker")));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "no worker");
  EXPECT_TRUE(status.error_details().empty());
  EXPECT_TRUE(ToClientStatus(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace baton::router
