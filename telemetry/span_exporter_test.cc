// The queue and the thread of the exporter, over a sender that the test commands.
#include "telemetry/span_exporter.h"

#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace baton::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kExportPatience = absl::Seconds(20);

SendResult Accepted() { return {.status = absl::OkStatus()}; }
SendResult Gone() { return {.status = absl::UnavailableError("connection refused"), .retryable = true}; }
SendResult Refused() { return {.status = absl::PermissionDeniedError("no")}; }

// What the test and the exporter's thread share.
class Collector {
 public:
  // Answers of the next tries; then those of `otherwise`.
  void Answer(std::vector<SendResult> answers, SendResult otherwise) {
    const absl::MutexLock lock(&mutex_);
    answers_ = {std::make_move_iterator(answers.begin()), std::make_move_iterator(answers.end())};
    otherwise_ = std::move(otherwise);
  }
  // While it hangs, tries end only when they are cancelled.
  void Hang(bool hangs) {
    const absl::MutexLock lock(&mutex_);
    hangs_ = hangs;
  }
  void AwaitTries(size_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tries_.size() >= count; };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kExportPatience)) << tries_.size() << " tries";
  }
  // The messages of all tries.
  std::vector<std::string> tries() {
    const absl::MutexLock lock(&mutex_);
    return tries_;
  }

  SendResult Send(const std::string& message) {
    const absl::MutexLock lock(&mutex_);
    tries_.push_back(message);
    const auto goes_on = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !hangs_ || is_cancelled_; };
    mutex_.Await(absl::Condition(&goes_on));
    if (is_cancelled_) return {.status = absl::CancelledError("the process ends")};
    if (answers_.empty()) return otherwise_;
    const SendResult answer = answers_.front();
    answers_.pop_front();
    return answer;
  }
  void Cancel() {
    const absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
  }

 private:
  absl::Mutex mutex_;
  std::deque<SendResult> answers_ ABSL_GUARDED_BY(mutex_);
  SendResult otherwise_ ABSL_GUARDED_BY(mutex_) = Accepted();
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> tries_ ABSL_GUARDED_BY(mutex_);
};

class CommandedSender final : public OtlpSender {
 public:
  explicit CommandedSender(Collector& collector) : collector_(collector) {}
  SendResult Send(const std::string& message, int64_t timeout_ms) override { return collector_.Send(message); }
  void Cancel() override { collector_.Cancel(); }

 private:
  Collector& collector_;
};

// Spans that a message names by their ids.
std::vector<Span> SpansNamed(uint64_t first, size_t count, size_t text_bytes = 0) {
  std::vector<Span> spans;
  for (size_t i = 0; i < count; ++i) {
    Span& span = spans.emplace_back();
    span.trace_id = {1, 1};
    span.span_id = first + i;
    if (text_bytes > 0) span.attributes.push_back({"text", std::string(text_bytes, 'x')});
  }
  return spans;
}

// "1 2 3 ", and the texts of attributes.
std::string EncodeIds(absl::Span<const Span> spans) {
  std::string message;
  for (const Span& span : spans) {
    absl::StrAppend(&message, span.span_id, " ");
    for (const Attribute& attribute : span.attributes) message += std::get<std::string>(attribute.value);
  }
  return message;
}

class SpanExporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<SpanExporter> Start(const BatchSettings& batch) {
    SpanExporter::Options options;
    options.batch = batch;
    options.encode = EncodeIds;
    options.sender = std::make_unique<CommandedSender>(collector_);
    options.destination = "the test's collector";
    return std::make_unique<SpanExporter>(std::move(options), MonotonicClock(), random_);
  }
  // Until `done` says yes of the counts.
  static SpanCounts AwaitCounts(const SpanExporter& exporter, const std::function<bool(const SpanCounts&)>& done) {
    const absl::Time end = absl::Now() + kExportPatience;
    while (!done(exporter.counts()) && absl::Now() < end) std::this_thread::yield();
    return exporter.counts();
  }

  SeededRandom random_{1};
  Collector collector_;
};

TEST_F(SpanExporterTest, AFullBatchLeavesAtOnceAndTheRestAfterTheDelay) {
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 4, .schedule_delay_ms = 50});
  exporter->Export(SpansNamed(1, 2));
  exporter->Export(SpansNamed(3, 2));
  collector_.AwaitTries(1);
  exporter->Export(SpansNamed(5, 1));
  collector_.AwaitTries(2);
  EXPECT_THAT(collector_.tries(), ElementsAre("1 2 3 4 ", "5 "));
  EXPECT_EQ(AwaitCounts(*exporter, [](const SpanCounts& c) { return c.exported == 5; }).exported, 5u);
}

TEST_F(SpanExporterTest, WithoutADelayEachRequestLeavesAtOnce) {
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 50, .schedule_delay_ms = 0});
  for (uint64_t i = 0; i < 3; ++i) {
    exporter->Export(SpansNamed(i + 1, 1));
    collector_.AwaitTries(i + 1);
  }
}

TEST_F(SpanExporterTest, SpansOfOneRequestStayTogetherWhereTheyFitABatch) {
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 4, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 3));
  exporter->Export(SpansNamed(4, 3));
  exporter->Export(SpansNamed(7, 9));
  exporter->Shutdown(10'000);
  EXPECT_THAT(collector_.tries(), ElementsAre("1 2 3 ", "4 5 6 ", "7 8 9 10 ", "11 12 13 14 ", "15 "));
  EXPECT_EQ(exporter->counts().exported, 15u);
}

TEST_F(SpanExporterTest, ExportNeverWaitsForACollectorThatHangsAndCountsWhatItDrops) {
  collector_.Hang(true);
  const auto exporter = Start({.max_queue_spans = 10, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 2));
  collector_.AwaitTries(1);
  for (int i = 0; i < 1000; ++i) exporter->Export(SpansNamed(100, 3));
  EXPECT_TRUE(exporter->full());
  EXPECT_EQ(exporter->counts().dropped_full, 3000u - 9u) << "three groups of three fit";
  exporter->CountDropped(5);
  EXPECT_EQ(exporter->counts().dropped_full, 3000u - 9u + 5u);
  collector_.Hang(false);
  AwaitCounts(*exporter, [](const SpanCounts& c) { return c.exported == 11; });
  EXPECT_FALSE(exporter->full());
  exporter->Export(SpansNamed(7, 2));
  EXPECT_EQ(AwaitCounts(*exporter, [](const SpanCounts& c) { return c.exported == 13; }).exported, 13u);
}

TEST_F(SpanExporterTest, AGroupThatNeverFitsDoesNotStopOthers) {
  const auto exporter = Start({.max_queue_spans = 4, .max_batch_spans = 4, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 5));
  EXPECT_FALSE(exporter->full());
  exporter->Export(SpansNamed(10, 4));
  collector_.AwaitTries(1);
  EXPECT_EQ(exporter->counts().dropped_full, 5u);
}

TEST_F(SpanExporterTest, TheQueueIsAlsoBoundedInBytes) {
  collector_.Hang(true);
  const auto exporter = Start({.max_queue_spans = 1000, .max_batch_spans = 1, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 1));
  collector_.AwaitTries(1);
  constexpr size_t kTextBytes = size_t{4} << 20;
  for (int i = 0; i < 12; ++i) exporter->Export(SpansNamed(100, 1, kTextBytes));
  EXPECT_EQ(exporter->counts().dropped_full, 12 - (kMaxQueuedSpanBytes / kTextBytes - 1))
      << "seven of 4 MiB, with what each takes besides, fit into 32 MiB";
  EXPECT_TRUE(exporter->full());
}

TEST_F(SpanExporterTest, AMessageThatIsTooLargeIsSplitAndASpanThatIsTooLargeIsDropped) {
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 100, .schedule_delay_ms = 3'600'000});
  std::vector<Span> spans = SpansNamed(1, 4, kMaxExportBytes / 3);
  spans.push_back(SpansNamed(5, 1, kMaxExportBytes + 1).front());
  exporter->Export(std::move(spans));
  exporter->Shutdown(10'000);
  std::vector<std::string> ids;
  for (const std::string& message : collector_.tries()) {
    EXPECT_LE(message.size(), kMaxExportBytes);
    for (size_t at = 0; at < message.size(); ++at) {
      if (message[at] >= '1' && message[at] <= '9') ids.push_back(message.substr(at, 1));
    }
  }
  EXPECT_THAT(ids, ElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(exporter->counts().exported, 4u);
  EXPECT_EQ(exporter->counts().dropped_too_large, 1u);
}

TEST_F(SpanExporterTest, TheSameMessageIsSentAgainUntilItIsTaken) {
  collector_.Answer({Gone(), Gone()}, Accepted());
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 2));
  collector_.AwaitTries(3);
  EXPECT_THAT(collector_.tries(), ElementsAre("1 2 ", "1 2 ", "1 2 "));
  const SpanCounts counts = AwaitCounts(*exporter, [](const SpanCounts& c) { return c.exported == 2; });
  EXPECT_EQ(counts.exported, 2u);
  EXPECT_EQ(counts.lost(), 0u);
}

TEST_F(SpanExporterTest, ABatchThatIsRefusedIsGivenUpAndTheNextOneGoesOut) {
  collector_.Answer({Refused()}, Accepted());
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 2));
  exporter->Export(SpansNamed(3, 2));
  const SpanCounts counts = AwaitCounts(*exporter, [](const SpanCounts& c) { return c.exported == 2; });
  EXPECT_EQ(counts.failed, 2u);
  EXPECT_EQ(counts.exported, 2u);
  EXPECT_EQ(collector_.tries().size(), 2u);
}

TEST_F(SpanExporterTest, ABatchIsGivenUpWhenItsTimeIsOver) {
  collector_.Answer({}, Gone());
  const auto exporter =
      Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000, .export_timeout_ms = 700});
  exporter->Export(SpansNamed(1, 2));
  EXPECT_EQ(AwaitCounts(*exporter, [](const SpanCounts& c) { return c.failed == 2; }).failed, 2u);
  // The first wait is 250 to 500 ms, the second at least as long.
  EXPECT_EQ(collector_.tries().size(), 2u);
}

TEST_F(SpanExporterTest, WhatAPartialSuccessLeavesOutIsCounted) {
  SendResult partial = Accepted();
  partial.rejected_spans = 3;
  partial.message = "three were too old";
  SendResult absurd = Accepted();
  absurd.rejected_spans = 1'000'000;
  absurd.message = "all";
  collector_.Answer({partial, absurd}, Accepted());
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 5, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 5));
  exporter->Export(SpansNamed(6, 5));
  const SpanCounts counts = AwaitCounts(*exporter, [](const SpanCounts& c) { return c.rejected == 8; });
  EXPECT_EQ(counts.exported, 2u);
  EXPECT_EQ(counts.rejected, 8u);
}

TEST_F(SpanExporterTest, ShutdownSendsWhatWaits) {
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 50, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 2));
  exporter->Export(SpansNamed(3, 2));
  exporter->Shutdown(10'000);
  EXPECT_THAT(collector_.tries(), ElementsAre("1 2 3 4 "));
  exporter->Export(SpansNamed(5, 2));
  EXPECT_EQ(exporter->counts().exported, 4u);
  EXPECT_EQ(exporter->counts().dropped_at_end, 2u) << "what comes later is dropped";
  EXPECT_GT(exporter->cpu_ns(), 0) << "the thread's time is known after its end";
}

TEST_F(SpanExporterTest, ShutdownEndsInTimeWhateverTheCollectorDoes) {
  collector_.Hang(true);
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  for (uint64_t i = 0; i < 5; ++i) exporter->Export(SpansNamed(2 * i + 1, 2));
  collector_.AwaitTries(1);
  exporter->Shutdown(50);
  EXPECT_EQ(exporter->counts().dropped_at_end, 10u);
  EXPECT_EQ(collector_.tries().size(), 1u);
}

TEST_F(SpanExporterTest, ShutdownDoesNotWaitForRetries) {
  collector_.Answer({}, {.status = absl::UnavailableError("later"), .retryable = true, .retry_after_ms = 20'000});
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 2));
  exporter->Export(SpansNamed(3, 2));
  collector_.AwaitTries(1);
  exporter->Shutdown(600'000);
  EXPECT_EQ(exporter->counts().failed, 4u);
  EXPECT_THAT(collector_.tries(), ElementsAre("1 2 ", "3 4 ")) << "each batch has its one try";
}

SendResult Busy(int64_t retry_after_ms) {
  return {.status = absl::UnavailableError("later"), .retryable = true, .retry_after_ms = retry_after_ms};
}

TEST_F(SpanExporterTest, AWaitThatIsTooLongForABatchHoldsTheNextOneBack) {
  constexpr int64_t kRetryAfterMs = 300;
  collector_.Answer({Busy(kRetryAfterMs)}, Accepted());
  const auto exporter =
      Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000, .export_timeout_ms = 100});
  const TimeNs began = MonotonicClock().Now();
  exporter->Export(SpansNamed(1, 2));
  exporter->Export(SpansNamed(3, 2));
  collector_.AwaitTries(2);
  EXPECT_GE(MonotonicClock().Now(), After(began, kRetryAfterMs));
  EXPECT_THAT(collector_.tries(), ElementsAre("1 2 ", "3 4 ")) << "the first one has no time left and is given up";
  const SpanCounts counts = AwaitCounts(*exporter, [](const SpanCounts& c) { return c.exported == 2; });
  EXPECT_EQ(counts.exported, 2u);
  EXPECT_EQ(counts.failed, 2u);
}

TEST_F(SpanExporterTest, ShutdownEndsTheWaitThatACollectorAskedFor) {
  collector_.Answer({Busy(3'600'000)}, Accepted());
  const auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  exporter->Export(SpansNamed(1, 2));
  AwaitCounts(*exporter, [](const SpanCounts& c) { return c.failed == 2; });
  exporter->Export(SpansNamed(3, 2));
  exporter->Shutdown(600'000);
  EXPECT_EQ(exporter->counts().exported, 2u);
}

// Takes what is logged while it lives.
class LoggedLines {
 public:
  LoggedLines() : before_(spdlog::default_logger()) {
    auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_, true));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~LoggedLines() { spdlog::set_default_logger(before_); }
  // When nobody logs any more.
  std::vector<std::string> lines() const { return absl::StrSplit(text_.str(), '\n', absl::SkipEmpty()); }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

TEST_F(SpanExporterTest, SaysOnceThatSpansDoNotArriveAndOnceThatTheyDoAgain) {
  SendResult partial = Accepted();
  partial.message = "some were old";
  collector_.Answer({Refused(), Refused(), Gone(), partial, partial}, Accepted());
  const LoggedLines log;
  auto exporter = Start({.max_queue_spans = 100, .max_batch_spans = 2, .schedule_delay_ms = 3'600'000});
  for (uint64_t i = 0; i < 4; ++i) {
    exporter->Export(SpansNamed(2 * i + 1, 2));
    AwaitCounts(*exporter, [&](const SpanCounts& c) { return c.exported + c.failed == 2 * (i + 1); });
  }
  exporter.reset();
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("warning"), HasSubstr("the test's collector"), HasSubstr("no")),
                                       AllOf(HasSubstr("warning"), HasSubstr("some were old")),
                                       AllOf(HasSubstr("info"), HasSubstr("again"), HasSubstr("4 were lost"))));
}

TEST_F(SpanExporterTest, EverySpanIsCountedOnceWhateverTheThreads) {
  collector_.Answer({}, Accepted());
  constexpr int kThreads = 4;
  constexpr int kGroups = 500;
  const auto exporter = Start({.max_queue_spans = 64, .max_batch_spans = 16, .schedule_delay_ms = 1});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kGroups; ++i) exporter->Export(SpansNamed(1, 3));
    });
  }
  for (std::thread& thread : threads) thread.join();
  exporter->Shutdown(20'000);
  const SpanCounts counts = exporter->counts();
  EXPECT_EQ(counts.exported + counts.dropped_full, 3u * kThreads * kGroups);
  EXPECT_GT(counts.exported, 0u);
}

}  // namespace
}  // namespace baton::telemetry
