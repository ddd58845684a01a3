// The settings of a chat: names, kinds and ranges.
#include "cli/chat_settings.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ChatSettings, EachKindOfValueIsRead) {
  v1::SamplingParams sampling;
  EXPECT_TRUE(SetSampling("temperature", "0.8", sampling).ok());
  EXPECT_TRUE(SetSampling("top_k", "40", sampling).ok());
  EXPECT_TRUE(SetSampling("max-tokens", "512", sampling).ok());
  EXPECT_TRUE(SetSampling("seed", "18446744073709551615", sampling).ok());
  EXPECT_TRUE(SetSampling("ignore_eos", "on", sampling).ok());
  EXPECT_FLOAT_EQ(sampling.temperature(), 0.8f);
  EXPECT_EQ(sampling.top_k(), 40);
  EXPECT_EQ(MaxAnswerTokens(sampling), 512);
  EXPECT_EQ(sampling.seed(), UINT64_MAX);
  EXPECT_TRUE(sampling.ignore_eos());
  EXPECT_THAT(ShowSampling(sampling),
              AllOf(HasSubstr("temperature         0.8\n"), HasSubstr("top_p               default\n"),
                    HasSubstr("ignore_eos          on\n")));
}

TEST(ChatSettings, DefaultLeavesTheValueToTheServer) {
  v1::SamplingParams sampling;
  ASSERT_TRUE(SetSampling("top_p", "0.5", sampling).ok());
  ASSERT_TRUE(SetSampling("top_p", "default", sampling).ok());
  EXPECT_FALSE(sampling.has_top_p());
}

TEST(ChatSettings, AWrongValueChangesNothing) {
  const auto error = [](const std::string& name, const std::string& value) {
    v1::SamplingParams sampling;
    sampling.set_top_p(0.5f);
    const absl::Status status = SetSampling(name, value, sampling);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_FLOAT_EQ(sampling.top_p(), 0.5f);
    return std::string(status.message());
  };
  EXPECT_EQ(error("top_p", "2"), "top_p: must be above 0 and at most 1, not 2");
  EXPECT_THAT(error("top_p", "nan"), HasSubstr("top_p: must be"));
  EXPECT_EQ(error("top_k", "1.5"), "top_k: expected an integer or default, not 1.5");
  EXPECT_EQ(error("seed", "-1"), "seed: expected an integer from 0 or default, not -1");
  EXPECT_EQ(error("ignore_eos", "maybe"), "ignore_eos: expected on or off or default, not maybe");
  EXPECT_THAT(error("max_tokens", "0"), HasSubstr("max_tokens: must be from 1"));
  EXPECT_THAT(error("top", "1"), HasSubstr("top is no setting: temperature, top_p, "));
  // It has many values, and none of them fits into a line.
  EXPECT_THAT(error("logit_bias", "1"), HasSubstr("logit_bias is no setting"));
}

TEST(ChatSettings, TheServersLimitOfAnAnswerIsKnown) { EXPECT_EQ(MaxAnswerTokens({}), 128); }

}  // namespace
}  // namespace baton::cli
