#include "bench/load/sse_parser.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using testing::ElementsAre;

std::vector<std::string> FeedInPieces(std::string_view stream, size_t piece) {
  SseParser parser;
  std::vector<std::string> data;
  for (size_t at = 0; at < stream.size(); at += piece) {
    EXPECT_TRUE(parser.Feed(stream.substr(at, piece), [&](std::string_view value) { data.emplace_back(value); }).ok());
  }
  return data;
}

TEST(SseParser, GivesTheSameHoweverTheStreamIsCut) {
  constexpr std::string_view kStream =
      ": hello\r\nevent: x\ndata: {\"a\": 1}\r\n\r\ndata:two\n\ndata: [DONE]\n\ndata: cut";
  for (size_t piece = 1; piece <= kStream.size(); ++piece) {
    EXPECT_THAT(FeedInPieces(kStream, piece), ElementsAre("{\"a\": 1}", "two", "[DONE]")) << piece;
  }
}

TEST(SseParser, RefusesAnEndlessLine) {
  SseParser parser;
  const std::string megabyte(1 << 20, 'x');
  const auto nothing = [](std::string_view) {};
  for (size_t fed = 0; fed < kMaxSseLineBytes; fed += megabyte.size()) ASSERT_TRUE(parser.Feed(megabyte, nothing).ok());
  EXPECT_EQ(parser.Feed("x", nothing).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton::bench
