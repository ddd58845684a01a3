#include "telemetry/event_buffer.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

using State = EventBuffer::State;

TEST(EventStream, EventsAreFramedWhateverTheirDataHas) {
  EXPECT_EQ(FormatEvent("snapshot", "{\"a\":1}"), "event: snapshot\ndata: {\"a\":1}\n\n");
  EXPECT_EQ(FormatEvent("", "one\ntwo\r\nthree\rfour\n"), "data: one\ndata: two\ndata: three\ndata: four\ndata: \n\n");
  EXPECT_EQ(FormatEvent("", ""), "data: \n\n");
}

TEST(EventBuffer, WakesOnceUntilItsTextIsTaken) {
  int wakes = 0;
  EventBuffer buffer(100, [&] { ++wakes; });
  EXPECT_TRUE(buffer.Write("a"));
  EXPECT_TRUE(buffer.Write("b"));
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(buffer.Take(), "ab");
  EXPECT_EQ(buffer.Take(), "");
  EXPECT_TRUE(buffer.Write("c"));
  EXPECT_EQ(wakes, 2);
}

TEST(EventBuffer, TextCountsUntilItWasSentAndTooMuchOfItBreaksTheStream) {
  int wakes = 0;
  EventBuffer buffer(10, [&] { ++wakes; });
  EXPECT_TRUE(buffer.Write("12345"));
  EXPECT_EQ(buffer.Take(), "12345");
  EXPECT_TRUE(buffer.Write("67890")) << "10 bytes are allowed";
  buffer.Sent(5);
  EXPECT_TRUE(buffer.Write("abcde"));
  EXPECT_FALSE(buffer.closed());
  wakes = 0;
  buffer.Take();
  EXPECT_FALSE(buffer.Write("f")) << "11 bytes are not";
  EXPECT_TRUE(buffer.closed());
  EXPECT_EQ(buffer.state(), State::kBroken);
  EXPECT_EQ(wakes, 1) << "the connection hears of it";
  EXPECT_FALSE(buffer.Write("")) << "it stays closed";
}

TEST(EventBuffer, AConnectionThatIsStuckInAWriteHearsThatTheStreamIsBroken) {
  int wakes = 0;
  EventBuffer buffer(10, [&] { ++wakes; });
  buffer.Write("12345");
  EXPECT_EQ(wakes, 1);
  EXPECT_FALSE(buffer.Write("678901")) << "nothing was taken meanwhile";
  EXPECT_EQ(wakes, 2);
}

TEST(EventBuffer, CloseLetsTheRestGoOut) {
  int wakes = 0;
  EventBuffer buffer(10, [&] { ++wakes; });
  buffer.Write("last");
  buffer.Close();
  EXPECT_TRUE(buffer.closed());
  EXPECT_EQ(buffer.state(), State::kEnding);
  EXPECT_FALSE(buffer.Write("more"));
  EXPECT_EQ(buffer.Take(), "last");
  EventBuffer idle(10, [&] { ++wakes; });
  wakes = 0;
  idle.Close();
  EXPECT_EQ(wakes, 1);
}

TEST(EventBuffer, AfterBreakNobodyIsWoken) {
  int wakes = 0;
  EventBuffer buffer(10, [&] { ++wakes; });
  buffer.Break();
  EXPECT_FALSE(buffer.Write("a"));
  buffer.Close();
  EXPECT_EQ(buffer.state(), State::kBroken);
  EXPECT_EQ(wakes, 0);
}

TEST(EventBuffer, WritersOfManyThreadsLoseNothing) {
  constexpr int kWriters = 4;
  constexpr int kWrites = 1000;
  EventBuffer buffer(kWriters * kWrites, [] {});
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < kWrites; ++n) EXPECT_TRUE(buffer.Write("x"));
    });
  }
  std::string all;
  while (all.size() < kWriters * kWrites) all += buffer.Take();
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(all, std::string(kWriters * kWrites, 'x'));
}

}  // namespace
}  // namespace baton::telemetry
