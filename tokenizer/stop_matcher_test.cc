#include "tokenizer/stop_matcher.h"

#include <string>
#include <vector>

#include "common/limits.h"
#include "common/random.h"
#include "gtest/gtest.h"

namespace baton::tokenizer {
namespace {

StopMatcher MakeMatcher(const std::vector<std::string>& stops) {
  absl::StatusOr<StopMatcher> matcher = StopMatcher::Create(stops);
  EXPECT_TRUE(matcher.ok()) << matcher.status();
  return *std::move(matcher);
}

struct Result {
  std::string text;
  int stop_index = -1;
  bool operator==(const Result&) const = default;
};

// Feeds the pieces and collects the emitted text.
Result Feed(StopMatcher matcher, const std::vector<std::string>& pieces) {
  Result result;
  for (const std::string& piece : pieces) {
    const StopMatcher::Output output = matcher.Push(piece);
    result.text += output.text;
    if (output.stopped) {
      result.stop_index = output.stop_index;
      return result;
    }
    EXPECT_LT(matcher.held_bytes(), kMaxStopStringBytes);
  }
  result.text += matcher.Flush();
  return result;
}

// The definition: the stop string that ends first wins, and among several that end together the longest.
Result Reference(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      const std::string& stop = stops[i];
      if (stop.size() > end || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (best < 0 || stop.size() > stops[best].size()) best = static_cast<int>(i);
    }
    if (best >= 0) return {text.substr(0, end - stops[best].size()), best};
  }
  return {text, -1};
}

TEST(StopMatcherTest, HoldsBackWhatMayBecomeAStop) {
  StopMatcher matcher = MakeMatcher({"STOP"});
  EXPECT_EQ(matcher.Push("abST").text, "ab");
  EXPECT_EQ(matcher.Push("ST").text, "ST");
  const StopMatcher::Output output = matcher.Push("OP and more");
  EXPECT_EQ(output.text, "");
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.stop_index, 0);
}

TEST(StopMatcherTest, GivesBackWhatWasHeldAtTheEnd) {
  StopMatcher matcher = MakeMatcher({"\n\n"});
  EXPECT_EQ(matcher.Push("end\n").text, "end");
  EXPECT_EQ(matcher.Flush(), "\n");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, PassesEverythingWithoutStops) {
  EXPECT_EQ(Feed(MakeMatcher({}), {"a", "", "bc"}), (Result{"abc", -1}));
}

TEST(StopMatcherTest, FindsAStopInsideTheFailedStartOfAnother) {
  EXPECT_EQ(Feed(MakeMatcher({"abcd", "bc"}), {"xab", "cx"}), (Result{"xa", 1}));
}

TEST(StopMatcherTest, CutsAtCharacterEdges) {
  // The stop shares its first byte with the text's last character.
  StopMatcher matcher = MakeMatcher({"\xC3\xA9"});
  EXPECT_EQ(matcher.Push("a\xC3\xA8").text, "a\xC3\xA8");
}

TEST(StopMatcherTest, EqualsTheDefinitionOnRandomTexts) {
  constexpr uint64_t kSeed = 77;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  SeededRandom random(kSeed);
  const auto random_text = [&random](size_t max_bytes) {
    std::string text;
    for (size_t n = random.Below(max_bytes) + 1; n > 0; --n) text.push_back(static_cast<char>('a' + random.Below(3)));
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (uint64_t n = random.Below(5); n > 0; --n) stops.push_back(random_text(7));
    std::vector<std::string> pieces;
    std::string text;
    for (uint64_t n = random.Below(12); n > 0; --n) text += pieces.emplace_back(random_text(4));
    const Result expected = Reference(stops, text);
    ASSERT_EQ(Feed(MakeMatcher(stops), pieces), expected) << "round " << round << " text " << text;
    stopped += expected.stop_index >= 0;
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 4500);
}

TEST(StopMatcherTest, HoldsItsLimits) {
  EXPECT_TRUE(StopMatcher::Create(std::vector<std::string>(kMaxStopStrings, "x")).ok());
  EXPECT_FALSE(StopMatcher::Create(std::vector<std::string>(kMaxStopStrings + 1, "x")).ok());
  EXPECT_TRUE(StopMatcher::Create({std::string(kMaxStopStringBytes, 'x')}).ok());
  EXPECT_FALSE(StopMatcher::Create({std::string(kMaxStopStringBytes + 1, 'x')}).ok());
  EXPECT_FALSE(StopMatcher::Create({""}).ok());
  EXPECT_FALSE(StopMatcher::Create({"\xC3"}).ok());
}

}  // namespace
}  // namespace baton::tokenizer
