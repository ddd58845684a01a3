#include "common/log.h"

#include <string>
#include <thread>

#include "common/log_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;

constexpr Id128 kLogTestTrace = {.high = 0x0123456789abcdef, .low = 0x0011223344556677};
constexpr char kLogTestTraceHex[] = "0123456789abcdef0011223344556677";

// 2026-01-02 03:04:05.678 UTC.
constexpr int64_t kLogTestTimeMs = 1'767'323'045'678;

std::string LogLine(LogFormat format, const std::string& message,
                    spdlog::level::level_enum level = spdlog::level::warn) {
  const spdlog::log_clock::time_point time{std::chrono::milliseconds(kLogTestTimeMs)};
  const spdlog::details::log_msg log_message(time, spdlog::source_loc(), "baton", level, message);
  spdlog::memory_buf_t line;
  MakeLogFormatter("router", format)->format(log_message, line);
  return {line.data(), line.size()};
}

TEST(Log, ATextLineIsTimeLevelRoleMessage) {
  EXPECT_THAT(LogLine(LogFormat::kText, "a worker joined"),
              MatchesRegex("202[56]-[0-9-]+T[0-9:]+\\.678[+-][0-9:]+ warning router a worker joined\n"));
}

TEST(Log, AJsonLineIsOneObjectWithTheSameParts) {
  EXPECT_EQ(LogLine(LogFormat::kJson, "a worker joined"),
            R"({"time":"2026-01-02T03:04:05.678Z","level":"warning","role":"router","message":"a worker joined"})"
            "\n");
}

TEST(Log, NoMessageBreaksAJsonLine) {
  const std::string hostile = "a \"quoted\" \\ text\nof two lines\twith \x01 and a byte \xFF";
  const std::string line = LogLine(LogFormat::kJson, hostile);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(line)["message"],
            "a \"quoted\" \\ text\nof two lines\twith \x01 and a byte \xEF\xBF\xBD");
}

TEST(Log, LinesOfATracedRequestStateItsTrace) {
  {
    const LogTrace trace(kLogTestTrace);
    EXPECT_THAT(LogLine(LogFormat::kText, "cut"),
                EndsWith(std::string("router cut trace_id=") + kLogTestTraceHex + "\n"));
    EXPECT_EQ(nlohmann::json::parse(LogLine(LogFormat::kJson, "cut"))["trace_id"], kLogTestTraceHex);
    std::thread([] { EXPECT_THAT(LogLine(LogFormat::kText, "cut"), EndsWith("router cut\n")); }).join();
    {
      const LogTrace none({});
      EXPECT_FALSE(nlohmann::json::parse(LogLine(LogFormat::kJson, "cut")).contains("trace_id"));
    }
    EXPECT_EQ(LogTrace::current(), kLogTestTrace);
  }
  EXPECT_THAT(LogLine(LogFormat::kText, "cut"), EndsWith("router cut\n"));
}

}  // namespace
}  // namespace baton
