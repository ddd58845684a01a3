#include "router/request_reader.h"

#include <cmath>
#include <functional>

#include "common/limits.h"
#include "common/random.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "router/job_output.h"
#include "router/testing/tiny_served_model.h"

namespace baton::router {
namespace {

class RequestReaderTest : public ::testing::Test {
 protected:
  grpc::Status Read(const v1::GenerateRequest& request) { return reader_.Read(request, prepared_); }

  // The field that the error's BadRequest names; empty for another error or none.
  std::string RefusedField(const v1::GenerateRequest& request) {
    const grpc::Status status = Read(request);
    google::rpc::Status rich;
    google::rpc::BadRequest detail;
    if (status.error_code() != grpc::StatusCode::INVALID_ARGUMENT || !rich.ParseFromString(status.error_details()) ||
        rich.details_size() != 1 || !rich.details(0).UnpackTo(&detail)) {
      return {};
    }
    return detail.field_violations(0).field();
  }

  static v1::GenerateRequest Text(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    return request;
  }

  std::string RefusedSampling(const std::function<void(v1::SamplingParams&)>& change) {
    v1::GenerateRequest request = Text("hello");
    change(*request.mutable_sampling());
    return RefusedField(request);
  }

  const ServedModel model_ = TestModel();
  SeededRandom random_{1};
  const RequestReader reader_{model_, random_};
  PreparedJob prepared_;
};

TEST_F(RequestReaderTest, TextBecomesTokensAndADrawnSeed) {
  ASSERT_TRUE(Read(Text("hello")).ok());
  EXPECT_FALSE(prepared_.job.prompt.empty());
  EXPECT_NE(prepared_.job.sampling.seed, 0u);
}

TEST_F(RequestReaderTest, AGivenSeedIsKept) {
  v1::GenerateRequest request = Text("hello");
  request.mutable_sampling()->set_seed(42);
  ASSERT_TRUE(Read(request).ok());
  EXPECT_EQ(prepared_.job.sampling.seed, 42u);
}

TEST_F(RequestReaderTest, ChatIsRenderedByTheModelsTemplate) {
  v1::GenerateRequest request;
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  ASSERT_TRUE(Read(request).ok());
  EXPECT_EQ(*model_.tokenizer->Decode(prepared_.job.prompt, false), "user: hi\n");
}

TEST_F(RequestReaderTest, TheModelsSamplingDefaultsCountWhereTheClientSetsNothing) {
  const auto model = TestModelWithDefaults(
      R"({"do_sample": true, "temperature": 0.5, "top_k": 64, "top_p": 0.75, "repetition_penalty": 1.25})");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  v1::GenerateRequest request = Text("hello");
  ASSERT_TRUE(reader.Read(request, prepared_).ok());
  EXPECT_EQ(prepared_.job.sampling.temperature, 0.5f);
  EXPECT_EQ(prepared_.job.sampling.top_k, 64);
  EXPECT_EQ(prepared_.job.sampling.top_p, 0.75f);
  EXPECT_EQ(prepared_.job.sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(prepared_.job.sampling.min_p, 0.0f);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_top_k(3);
  ASSERT_TRUE(reader.Read(request, prepared_).ok());
  EXPECT_EQ(prepared_.job.sampling.temperature, 0.0f);
  EXPECT_EQ(prepared_.job.sampling.top_k, 3);
  EXPECT_EQ(prepared_.job.sampling.top_p, 0.75f);
}

TEST_F(RequestReaderTest, AModelThatIsNotToBeSampledStaysGreedy) {
  const auto model = TestModelWithDefaults(R"({"temperature": 0.5, "top_k": 64})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->sampling_defaults, SamplingParams());
}

TEST_F(RequestReaderTest, RefusesAModelWithSamplingDefaultsThatNoClientMayAskFor) {
  const absl::Status status = TestModelWithDefaults(R"({"do_sample": true, "top_p": 1.5})").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("generation_config.json: top_p"), absl::string_view::npos) << status;
}

TEST_F(RequestReaderTest, BosIsAddedToTextAndNotToWhatTheTemplateWrites) {
  const auto model = TestModelWithDefaults("{}");
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestReader reader(*model, random_);
  const std::vector<int32_t> expected = {modelfile::kTinyBos, modelfile::kTinyFirstByteToken + 'h'};
  ASSERT_TRUE(reader.Read(Text("h"), prepared_).ok());
  EXPECT_EQ(prepared_.job.prompt, expected);
  v1::GenerateRequest request;
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("h");
  ASSERT_TRUE(reader.Read(request, prepared_).ok());
  EXPECT_EQ(prepared_.job.prompt, expected);
}

TEST_F(RequestReaderTest, RefusesWithoutAPromptOrWithAnEmptyOne) {
  EXPECT_EQ(RefusedField({}), "prompt");
  EXPECT_EQ(RefusedField(Text("")), "prompt");
  v1::GenerateRequest request;
  request.mutable_chat();
  EXPECT_EQ(RefusedField(request), "chat.messages");
}

TEST_F(RequestReaderTest, RefusesAPromptThatFillsTheContextAndTakesOneTokenLess) {
  v1::GenerateRequest request;
  for (int i = 0; i + 1 < model_.config.context_length; ++i) request.mutable_token_ids()->add_ids(1);
  EXPECT_TRUE(Read(request).ok());
  request.mutable_token_ids()->add_ids(1);
  EXPECT_EQ(RefusedField(request), "prompt");
}

TEST_F(RequestReaderTest, RefusesTokenIdsOutsideTheVocabulary) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(model_.config.vocab_size);
  EXPECT_EQ(RefusedField(request), "token_ids");
  request.mutable_token_ids()->set_ids(0, -1);
  EXPECT_EQ(RefusedField(request), "token_ids");
}

TEST_F(RequestReaderTest, RefusesSamplingValuesByName) {
  EXPECT_EQ(RefusedSampling([](auto& s) { s.set_temperature(-1); }), "sampling.temperature");
  EXPECT_EQ(RefusedSampling([](auto& s) { s.set_temperature(NAN); }), "sampling.temperature");
  EXPECT_EQ(RefusedSampling([](auto& s) { s.set_top_p(2); }), "sampling.top_p");
  EXPECT_EQ(RefusedSampling([](auto& s) { s.set_max_tokens(0); }), "sampling.max_tokens");
  EXPECT_EQ(RefusedSampling([](auto& s) { s.set_logprobs(-1); }), "sampling.logprobs");
  EXPECT_EQ(RefusedSampling([](auto& s) { s.set_logprobs(kMaxLogprobs + 1); }), "sampling.logprobs");
}

TEST_F(RequestReaderTest, TakesStopStringsUpToTheirLimits) {
  v1::GenerateRequest request = Text("hello");
  for (int i = 0; i < kMaxStopStrings; ++i) request.add_stop(std::string(kMaxStopStringBytes, 'x'));
  EXPECT_TRUE(Read(request).ok());
  request.add_stop("one more");
  EXPECT_EQ(RefusedField(request), "stop");
  request.clear_stop();
  request.add_stop(std::string(kMaxStopStringBytes + 1, 'x'));
  EXPECT_EQ(RefusedField(request), "stop");
  request.set_stop(0, "");
  EXPECT_EQ(RefusedField(request), "stop");
}

TEST_F(RequestReaderTest, RefusesTextBeyondItsLimit) {
  EXPECT_EQ(RefusedField(Text(std::string(kMaxPromptBytes + 1, 'a'))), "text");
}

TEST_F(RequestReaderTest, AnotherModelIsNotFound) {
  v1::GenerateRequest request = Text("hello");
  request.set_model("another");
  EXPECT_EQ(Read(request).error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_model("tiny");
  EXPECT_TRUE(Read(request).ok());
}

TEST_F(RequestReaderTest, OutputEndsBeforeAStopStringThatSpansTokens) {
  auto output = JobOutput::Create(*model_.tokenizer, {"END"});
  ASSERT_TRUE(output.ok());
  const auto ids = model_.tokenizer->Encode("textENDmore");
  ASSERT_TRUE(ids.ok());
  std::string text;
  for (const int32_t id : *ids) text += *output->Push(id);
  EXPECT_EQ(text + output->Flush(), "text");
  EXPECT_TRUE(output->stopped());
}

}  // namespace
}  // namespace baton::router
