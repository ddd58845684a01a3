// Reading requests of KServe's protocol. tests/e2e/test_kserve.py has the real client and a real cluster.
#include "gateway/kserve_request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gateway/kserve_model.h"
#include "gateway/kserve_parameters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "router/error_details.h"

namespace baton::gateway {
namespace {

using inference::ModelInferRequest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelInferRequest::InferInputTensor* AddTensor(ModelInferRequest& message, const std::string& name,
                                               const std::string& type) {
  auto* const input = message.add_inputs();
  input->set_name(name);
  input->set_datatype(type);
  input->add_shape(1);
  return input;
}

std::string WithSize(const std::string& element, uint32_t size) {
  std::string raw;
  for (int i = 0; i < 4; ++i) raw.push_back(static_cast<char>(size >> (8 * i)));
  return raw + element;
}
std::string WithSize(const std::string& element) { return WithSize(element, static_cast<uint32_t>(element.size())); }

void AddRawText(ModelInferRequest& message, const std::string& name, const std::string& text) {
  AddTensor(message, name, "BYTES");
  message.add_raw_input_contents(WithSize(text));
}

void AddRawBool(ModelInferRequest& message, const std::string& name, bool value) {
  AddTensor(message, name, "BOOL");
  message.add_raw_input_contents(std::string(1, value ? '\1' : '\0'));
}

ModelInferRequest Asked(const std::string& text = "hi") {
  ModelInferRequest message;
  AddRawText(message, kTextInput, text);
  return message;
}

ModelInferRequest AskedWith(const std::string& sampling) {
  ModelInferRequest message = Asked();
  AddRawText(message, kSamplingInput, sampling);
  return message;
}

absl::StatusOr<KserveRequest> ReadStream(ModelInferRequest message) {
  return ReadKserveRequest(KserveMethod::kStreamInfer, message);
}

// The field at fault; "none" without an error, and empty where none is named.
std::string WrongField(const absl::StatusOr<KserveRequest>& read) {
  if (read.ok()) return "none";
  const auto field = router::GetFieldError(read.status());
  return field.has_value() ? field->field : "";
}
std::string WrongField(ModelInferRequest message) { return WrongField(ReadStream(std::move(message))); }

std::string TextOf(const KserveRequest& request) {
  return std::get<router::TextPrompt>(request.generation.prompt).text;
}

TEST(KserveRequestTest, ATextIsReadFromRawBytesAndFromContentsAlike) {
  const auto raw = ReadStream(Asked("one"));
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_EQ(TextOf(*raw), "one");
  ModelInferRequest message;
  AddTensor(message, kTextInput, "BYTES")->mutable_contents()->add_bytes_contents("two");
  AddTensor(message, kStreamInput, "BOOL")->mutable_contents()->add_bool_contents(true);
  const auto contents = ReadStream(message);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(TextOf(*contents), "two");
  EXPECT_TRUE(contents->is_stream);
}

TEST(KserveRequestTest, AnAnswerThatIsNoStreamHasItsPromptBeforeItUnlessThatIsExcluded) {
  EXPECT_EQ(ReadStream(Asked("hi"))->echo, "hi");
  ModelInferRequest excluded = Asked("hi");
  AddRawBool(excluded, kExcludeInput, true);
  EXPECT_EQ(ReadStream(excluded)->echo, "");
  ModelInferRequest stream = Asked("hi");
  AddRawBool(stream, kStreamInput, true);
  EXPECT_EQ(ReadStream(stream)->echo, "");
  AddRawBool(stream, kExcludeInput, false);
  EXPECT_EQ(WrongField(stream), kExcludeInput);
}

TEST(KserveRequestTest, OnlyModelStreamInferStreams) {
  ModelInferRequest stream = Asked();
  AddRawBool(stream, kStreamInput, true);
  EXPECT_TRUE(ReadStream(stream).ok());
  EXPECT_EQ(WrongField(ReadKserveRequest(KserveMethod::kInfer, stream)), kStreamInput);
}

TEST(KserveRequestTest, RawBytesWhoseSizesLieAreRefused) {
  for (const std::string& raw :
       {std::string(), std::string("abc"), WithSize("hi", 1), WithSize("hi", 3), WithSize("hi", 0xFFFFFFFF),
        WithSize("a") + WithSize("b"), WithSize("hi", 0xFFFFFFFE), std::string("\2\0\0", 3)}) {
    ModelInferRequest message;
    AddTensor(message, kTextInput, "BYTES");
    message.add_raw_input_contents(raw);
    EXPECT_EQ(WrongField(message), kTextInput) << raw.size();
  }
  for (const std::string& raw : {std::string(), std::string(2, '\1'), std::string("\2"), std::string("\xFF")}) {
    ModelInferRequest message = Asked();
    AddTensor(message, kStreamInput, "BOOL");
    message.add_raw_input_contents(raw);
    EXPECT_EQ(WrongField(message), kStreamInput) << raw.size();
  }
  ModelInferRequest empty;
  AddTensor(empty, kTextInput, "BYTES");
  empty.add_raw_input_contents(WithSize(""));
  EXPECT_TRUE(ReadStream(empty).ok()) << "an empty text is one; the model's reader refuses it";
}

TEST(KserveRequestTest, ContentsInBothPlacesOrNotForAllInputsAreRefused) {
  ModelInferRequest both = Asked();
  both.mutable_inputs(0)->mutable_contents()->add_bytes_contents("hi");
  EXPECT_EQ(WrongField(both), kTextInput);
  ModelInferRequest missing = Asked();
  AddTensor(missing, kStreamInput, "BOOL");
  EXPECT_EQ(WrongField(missing), "raw_input_contents");
  ModelInferRequest more = Asked();
  more.add_raw_input_contents("x");
  EXPECT_EQ(WrongField(more), "raw_input_contents");
  ModelInferRequest none;
  AddTensor(none, kTextInput, "BYTES");
  EXPECT_EQ(WrongField(none), kTextInput);
  ModelInferRequest other_type;
  AddTensor(other_type, kTextInput, "BYTES")->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(WrongField(other_type), kTextInput);
  ModelInferRequest two;
  auto* const input = AddTensor(two, kTextInput, "BYTES");
  input->mutable_contents()->add_bytes_contents("a");
  input->mutable_contents()->add_bytes_contents("b");
  EXPECT_EQ(WrongField(two), kTextInput);
  EXPECT_EQ(WrongField(ModelInferRequest()), kTextInput) << "without any input";
}

TEST(KserveRequestTest, AnInputOfAnotherTypeOrShapeIsRefused) {
  for (const char* type : {"", "BOOL", "INT32", "bytes", "STRING"}) {
    ModelInferRequest message = Asked();
    message.mutable_inputs(0)->set_datatype(type);
    EXPECT_EQ(WrongField(message), kTextInput) << type;
  }
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {0}, {2}, {-1}, {1, 1}, {int64_t{1} << 62}}) {
    ModelInferRequest message = Asked();
    message.mutable_inputs(0)->clear_shape();
    for (const int64_t size : shape) message.mutable_inputs(0)->add_shape(size);
    EXPECT_EQ(WrongField(message), kTextInput) << shape.size();
  }
  ModelInferRequest shared = Asked();
  (*shared.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  EXPECT_EQ(ReadStream(shared).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(ReadStream(shared).status().message()), HasSubstr("shared_memory_region"));
}

TEST(KserveRequestTest, AnInputThatIsUnknownOrGivenTwiceIsRefusedByItsName) {
  ModelInferRequest unknown = Asked();
  AddRawText(unknown, "temperature", "0");
  EXPECT_EQ(WrongField(unknown), "temperature");
  ModelInferRequest twice = Asked();
  AddRawText(twice, kTextInput, "again");
  EXPECT_EQ(WrongField(twice), kTextInput);
  ModelInferRequest long_name = Asked();
  AddRawText(long_name, std::string(1'000, 'n'), "");
  EXPECT_EQ(WrongField(long_name), std::string(64, 'n'));
  ModelInferRequest image = Asked();
  AddRawText(image, "image", "x");
  EXPECT_EQ(ReadStream(image).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(KserveRequestTest, LogProbabilitiesAreComputedForThoseWhoAskForThem) {
  ModelInferRequest message = Asked();
  AddRawBool(message, kReturnLogprobs, true);
  AddRawBool(message, kReturnCumulativeLogprob, false);
  const auto unsaid = ReadStream(message);
  ASSERT_TRUE(unsaid.ok()) << unsaid.status();
  EXPECT_TRUE(unsaid->outputs.logprobs && !unsaid->outputs.cumulative_logprob);
  EXPECT_FALSE(unsaid->has_logprobs);
  EXPECT_EQ(unsaid->generation.sampling.logprobs, std::nullopt) << "as with Triton's backend";
  *message.mutable_raw_input_contents(2) = "\1";
  EXPECT_FALSE(ReadStream(message)->has_logprobs);
  EXPECT_EQ(ReadStream(message)->generation.sampling.logprobs, 0) << "a sum needs those of the output's tokens";
  AddRawText(message, kSamplingInput, R"({"logprobs":"2"})");
  const auto said = ReadStream(message);
  EXPECT_TRUE(said->outputs.logprobs && said->outputs.cumulative_logprob && said->has_logprobs);
  EXPECT_EQ(said->generation.sampling.logprobs, 2);
}

TEST(KserveRequestTest, ARequestMayHaveSeveralOutputsUpToABound) {
  EXPECT_EQ(ReadStream(Asked())->generation.choices, 1);
  EXPECT_EQ(ReadStream(AskedWith(R"({"n":"3"})"))->generation.choices, 3);
  EXPECT_EQ(ReadStream(AskedWith(absl::StrCat(R"({"n":)", kMaxChoices, "}")))->generation.choices, kMaxChoices);
  for (const int64_t n : {int64_t{0}, int64_t{-1}, int64_t{kMaxChoices + 1}, int64_t{1} << 40}) {
    EXPECT_EQ(WrongField(AskedWith(absl::StrCat(R"({"n":)", n, "}"))), "n") << n;
  }
}

TEST(KserveRequestTest, SamplingParametersMayBeStrings) {
  const auto read = ReadStream(AskedWith(
      R"({"temperature":"0.5","top_p":0.9,"max_tokens":"7","top_k":-1,"seed":"18446744073709551615","stop":"x",)"
      R"("ignore_eos":"True","logit_bias":{"3":-1},"stop_token_ids":[4]})"));
  ASSERT_TRUE(read.ok()) << read.status();
  const router::SamplingRequest& sampling = read->generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.max_tokens, 7);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.seed, UINT64_MAX);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.logit_bias.size(), 1u);
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(4));
  EXPECT_THAT(read->generation.stop, ElementsAre("x"));
}

TEST(KserveRequestTest, SamplingParametersThatAreWrongOrNotBuiltAreRefusedByName) {
  for (const auto& [json, field] :
       std::vector<std::pair<std::string, std::string>>{{R"({"temperature":"warm"})", "temperature"},
                                                        {R"({"temperature":"nan"})", "temperature"},
                                                        {R"({"max_tokens":"1.5"})", "max_tokens"},
                                                        {R"({"max_tokens":"99999999999999999999"})", "max_tokens"},
                                                        {R"({"max_tokens":true})", "max_tokens"},
                                                        {R"({"seed":-1})", "seed"},
                                                        {R"({"n":true})", "n"},
                                                        {R"({"n":"two"})", "n"},
                                                        {R"({"best_of":2})", "best_of"},
                                                        {R"({"lora_name":"a"})", "lora_name"},
                                                        {R"({"guided_decoding":{}})", "guided_decoding"},
                                                        {R"({"logprobs":"all"})", "logprobs"},
                                                        {R"({"prompt_logprobs":1})", "prompt_logprobs"},
                                                        {R"({"tempreature":1})", "tempreature"},
                                                        {"[]", kSamplingInput},
                                                        {"", kSamplingInput},
                                                        {"{\"a\":\"\xFF\"}", kSamplingInput}}) {
    EXPECT_EQ(WrongField(AskedWith(json)), field) << json;
  }
  EXPECT_TRUE(ReadStream(AskedWith(R"({"n":"1","detokenize":true,"best_of":null})")).ok());
  EXPECT_EQ(ReadStream(AskedWith("{}"))->generation.sampling.max_tokens, kKserveMaxTokens);
}

TEST(KserveRequestTest, ASchemaForTheOutputKeepsTheOrderOfItsMembers) {
  const auto read = ReadStream(AskedWith(R"({"structured_outputs":{"json":{"z":1,"a":2}},"max_tokens":"5"})"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.sampling.grammar,
            (OutputGrammar{.kind = GrammarKind::kJsonSchema, .text = R"({"z":1,"a":2})"}));
  EXPECT_EQ(WrongField(AskedWith(R"({"structured_outputs":{"json":{},"regex":"a"}})")), "structured_outputs");
}

TEST(KserveRequestTest, RequestParametersAreSamplingParametersTooButNotTwice) {
  ModelInferRequest message = Asked();
  auto& parameters = *message.mutable_parameters();
  parameters["temperature"].set_double_param(0.25);
  parameters["max_tokens"].set_int64_param(3);
  parameters["seed"].set_int64_param(5);
  parameters["stop"].set_string_param("s");
  parameters["ignore_eos"].set_bool_param(true);
  const auto read = ReadStream(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.sampling.temperature, 0.25F);
  EXPECT_EQ(read->generation.sampling.max_tokens, 3);
  EXPECT_EQ(read->generation.sampling.seed, 5u);
  EXPECT_THAT(read->generation.stop, ElementsAre("s"));
  ModelInferRequest twice = AskedWith(R"({"seed":5})");
  (*twice.mutable_parameters())["seed"].set_int64_param(6);
  EXPECT_EQ(WrongField(twice), "seed");
  ModelInferRequest unknown = Asked();
  (*unknown.mutable_parameters())["beams"].set_int64_param(6);
  EXPECT_EQ(WrongField(unknown), "beams");
}

TEST(KserveRequestTest, ParametersOfTheProtocolAreReadOrRefused) {
  ModelInferRequest message = Asked();
  auto& parameters = *message.mutable_parameters();
  parameters["priority"].set_uint64_param(3);
  parameters["timeout"].set_int64_param(2'000'000);
  parameters["triton_enable_empty_final_response"].set_bool_param(true);
  const auto read = ReadStream(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->generation.priority, -2);
  EXPECT_EQ(read->timeout_us, 2'000'000);
  EXPECT_TRUE(read->wants_empty_final);
  for (const auto& [triton, baton] : std::vector<std::pair<uint64_t, int>>{{0, 0}, {1, 0}, {9, -8}}) {
    parameters["priority"].set_uint64_param(triton);
    EXPECT_EQ(ReadStream(message)->generation.priority, baton);
  }
  parameters["priority"].set_uint64_param(10);
  EXPECT_EQ(WrongField(message), "priority");
  parameters.erase("priority");
  parameters["timeout"].set_int64_param(-1);
  EXPECT_EQ(WrongField(message), "timeout");
  parameters["timeout"].set_uint64_param(UINT64_MAX);
  EXPECT_EQ(ReadStream(message)->timeout_us, std::nullopt) << "which is longer than the clock counts";
  for (const char* name : {"sequence_id", "sequence_start", "triton_other"}) {
    ModelInferRequest unbuilt = Asked();
    (*unbuilt.mutable_parameters())[name].set_int64_param(1);
    EXPECT_EQ(WrongField(unbuilt), name);
    EXPECT_EQ(ReadStream(unbuilt).status().code(), absl::StatusCode::kUnimplemented);
  }
}

TEST(KserveRequestTest, NamedOutputsAreTheOnlyOnes) {
  ModelInferRequest message = Asked();
  AddRawBool(message, kReturnFinishReason, true);
  const auto all = ReadStream(message);
  EXPECT_TRUE(all->outputs.text && all->outputs.finish_reason && !all->outputs.token_ids);
  message.add_outputs()->set_name(kTokenIdsOutput);
  const auto named = ReadStream(message);
  EXPECT_TRUE(!named->outputs.text && !named->outputs.finish_reason && named->outputs.token_ids);
  message.add_outputs()->set_name("logits");
  EXPECT_EQ(WrongField(message), "outputs.logits");
  message.mutable_outputs(1)->set_name(kLogprobsOutput);
  message.add_outputs()->set_name(kCumulativeLogprobOutput);
  EXPECT_TRUE(ReadStream(message)->outputs.logprobs && ReadStream(message)->outputs.cumulative_logprob);
  message.mutable_outputs()->RemoveLast();
  message.mutable_outputs()->RemoveLast();
  (*message.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  EXPECT_EQ(WrongField(message), "outputs.parameters.classification");
}

TEST(KserveRequestTest, ErrorsOfTheReaderSpeakOfTheClientsNames) {
  const auto field = [](const char* name) {
    return router::GetFieldError(WithKserveNames(router::FieldViolation(name, "d")))->field;
  };
  EXPECT_EQ(field("sampling.top_p"), "top_p");
  EXPECT_EQ(field("text"), kTextInput);
  EXPECT_EQ(field("prompt"), kTextInput);
  EXPECT_EQ(field("stop"), "stop");
  EXPECT_EQ(WithKserveNames(absl::InternalError("x")), absl::InternalError("x"));
}

}  // namespace
}  // namespace baton::gateway
