#include "telemetry/sampler.h"

#include <string>
#include <vector>

#include "common/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TraceParent kSampledParent = {.trace_id = {1, 2}, .span_id = 3, .flags = kSampledFlag};
constexpr TraceParent kUnsampledParent = {.trace_id = {1, 2}, .span_id = 3, .flags = 0};
constexpr Id128 kAnyTrace = {.high = 5, .low = 6};

Sampler GoodSampler(std::string_view name, std::string_view argument = "") {
  std::vector<std::string> warnings;
  const Sampler sampler = Sampler::FromNames(name, argument, warnings);
  EXPECT_THAT(warnings, IsEmpty());
  return sampler;
}

// What a sampler says of requests with a sampled parent, with an unsampled one and without.
std::string Answers(const Sampler& sampler) {
  const auto answer = [&](const std::optional<TraceParent>& parent) {
    return sampler.ShouldSample(parent, kAnyTrace) ? "yes " : "no ";
  };
  return std::string(answer(kSampledParent)) + answer(kUnsampledParent) + answer(std::nullopt);
}

TEST(Sampler, FollowsTheParentUnlessItsNameSaysOtherwise) {
  EXPECT_EQ(Answers(Sampler()), "yes no yes ");
  EXPECT_EQ(Answers(GoodSampler("")), "yes no yes ");
  EXPECT_EQ(Answers(GoodSampler("parentbased_always_on")), "yes no yes ");
  EXPECT_EQ(Answers(GoodSampler("parentbased_always_off")), "yes no no ");
  EXPECT_EQ(Answers(GoodSampler("parentbased_traceidratio", "0")), "yes no no ");
  EXPECT_EQ(Answers(GoodSampler("parentbased_traceidratio", "1")), "yes no yes ");
  EXPECT_EQ(Answers(GoodSampler("always_on")), "yes yes yes ");
  EXPECT_EQ(Answers(GoodSampler("always_off")), "no no no ");
  EXPECT_EQ(Answers(GoodSampler("traceidratio", "0")), "no no no ");
  EXPECT_EQ(Answers(GoodSampler("traceidratio")), "yes yes yes ") << "without an argument the ratio is 1";
}

TEST(Sampler, TakesItsShareOfTheTracesByTheirIdAlone) {
  const Sampler tenth = GoodSampler("traceidratio", "0.1");
  const Sampler half = GoodSampler("parentbased_traceidratio", "0.5");
  SeededRandom random(1);
  int taken_by_tenth = 0;
  int taken_by_half = 0;
  constexpr int kTraces = 20'000;
  for (int i = 0; i < kTraces; ++i) {
    const Id128 trace = random.NextId();
    const bool is_taken = tenth.ShouldSample(std::nullopt, trace);
    EXPECT_EQ(is_taken, tenth.ShouldSample(kUnsampledParent, trace));
    // A trace of the smaller share is also in the larger one, so processes with different ratios keep whole traces.
    EXPECT_TRUE(!is_taken || half.ShouldSample(std::nullopt, trace));
    taken_by_tenth += is_taken;
    taken_by_half += half.ShouldSample(std::nullopt, trace);
  }
  EXPECT_NEAR(taken_by_tenth, kTraces * 0.1, kTraces * 0.01);
  EXPECT_NEAR(taken_by_half, kTraces * 0.5, kTraces * 0.02);
}

TEST(Sampler, TheIdAtTheEdgeOfTheRatioDecidesAsInOtherLibraries) {
  const Sampler half = GoodSampler("traceidratio", "0.5");
  EXPECT_TRUE(half.ShouldSample(std::nullopt, {.high = ~uint64_t{0}, .low = 0x7fffffffffffffff}));
  EXPECT_FALSE(half.ShouldSample(std::nullopt, {.high = 0, .low = 0x8000000000000000}));
}

TEST(Sampler, WarnsOfWhatItDoesNotKnowAndFallsBack) {
  for (const char* name : {"jaeger_remote", "parentbased_", "parentbased_xray", "always"}) {
    std::vector<std::string> warnings;
    EXPECT_EQ(Answers(Sampler::FromNames(name, "", warnings)), "yes no yes ") << name;
    EXPECT_THAT(warnings, ElementsAre(HasSubstr(name)));
  }
  for (const char* argument : {"1.5", "-0.1", "half", "0.5x", "nan"}) {
    std::vector<std::string> warnings;
    EXPECT_EQ(Answers(Sampler::FromNames("traceidratio", argument, warnings)), "yes yes yes ") << argument;
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("OTEL_TRACES_SAMPLER_ARG")));
  }
}

TEST(Sampler, NamesItself) {
  EXPECT_EQ(Sampler().Describe(), "parentbased_always_on");
  EXPECT_EQ(GoodSampler("traceidratio", "0.25").Describe(), "traceidratio(0.25)");
  EXPECT_EQ(GoodSampler("parentbased_always_off").Describe(), "parentbased_always_off");
}

}  // namespace
}  // namespace baton::telemetry
