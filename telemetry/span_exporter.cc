#include "telemetry/span_exporter.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "common/log.h"
#include "telemetry/export_retry.h"

namespace baton::telemetry {
namespace {

// What a span and an attribute take besides their texts.
constexpr size_t kSpanOverheadBytes = 128;
constexpr size_t kAttributeOverheadBytes = 48;
constexpr LogLimitOptions kExportLogLimit = {.lines_per_period = 2, .period_ms = 60'000};

struct ValueBytes {
  size_t operator()(const std::string& text) const { return text.size(); }
  size_t operator()(const std::vector<std::string>& texts) const {
    size_t bytes = 0;
    for (const std::string& text : texts) bytes += kAttributeOverheadBytes + text.size();
    return bytes;
  }
  template <typename Number>
  size_t operator()(const Number&) const {
    return sizeof(Number);
  }
};

size_t AttributeBytes(const std::vector<Attribute>& attributes) {
  size_t bytes = 0;
  for (const Attribute& attribute : attributes) {
    bytes += kAttributeOverheadBytes + attribute.key.view().size() + std::visit(ValueBytes(), attribute.value);
  }
  return bytes;
}

// About what a span takes in memory and in a message.
size_t SpanBytes(const Span& span) {
  size_t bytes = kSpanOverheadBytes + span.name.view().size() + span.tracestate.size() + span.status_message.size() +
                 AttributeBytes(span.attributes);
  for (const SpanEvent& event : span.events) {
    bytes += kAttributeOverheadBytes + event.name.view().size() + AttributeBytes(event.attributes);
  }
  return bytes;
}

size_t GroupBytes(const std::vector<Span>& spans) {
  size_t bytes = 0;
  for (const Span& span : spans) bytes += SpanBytes(span);
  return bytes;
}

void Count(std::atomic<uint64_t>& counter, size_t spans) { counter.fetch_add(spans, std::memory_order_relaxed); }

}  // namespace

SpanExporter::SpanExporter(Options options, const Clock& clock, RandomSource& random)
    : options_(std::move(options)),
      clock_(clock),
      random_(random),
      log_limit_(kExportLogLimit, clock),
      thread_("baton-spans", [this] { Run(); }) {}

SpanExporter::~SpanExporter() { Shutdown(0); }

void SpanExporter::Export(std::vector<Span> spans) {
  if (spans.empty()) return;
  const size_t count = spans.size();
  if (full()) return CountDropped(count);
  const size_t bytes = GroupBytes(spans);
  const absl::MutexLock lock(&mutex_);
  if (ending_) return Count(dropped_at_end_, count);
  const bool was_idle = queue_.empty();
  const bool was_due = IsDue();
  if (count > options_.batch.max_queue_spans - queued_spans_ || bytes > kMaxQueuedSpanBytes - queued_bytes_) {
    // What can never fit does not stop others.
    full_ = !queue_.empty();
    Count(dropped_full_, count);
  } else {
    queued_spans_ += count;
    queued_bytes_ += bytes;
    queue_.push_back({.spans = std::move(spans), .bytes = bytes});
  }
  // The thread waits for a first span, and then for a batch.
  if (was_idle || (!was_due && IsDue())) due_.Signal();
}

bool SpanExporter::IsDue() const {
  return ending_ || full() || queued_spans_ >= options_.batch.max_batch_spans || queued_bytes_ >= kMaxExportBytes;
}

std::vector<SpanExporter::Group> SpanExporter::TakeGroups() {
  const absl::MutexLock lock(&mutex_);
  while (queue_.empty() && !ending_) due_.Wait(&mutex_);
  const TimeNs due = After(clock_.Now(), options_.batch.schedule_delay_ms);
  while (!IsDue() && clock_.Now() < due) {
    due_.WaitWithTimeout(&mutex_, absl::Nanoseconds(due - clock_.Now()));
  }
  std::vector<Group> groups;
  size_t spans = 0;
  size_t bytes = 0;
  // One group at least, whatever its size.
  while (!queue_.empty()) {
    QueuedGroup& first = queue_.front();
    const bool fits =
        spans + first.spans.size() <= options_.batch.max_batch_spans && bytes + first.bytes <= kMaxExportBytes;
    if (!fits && !groups.empty()) break;
    spans += first.spans.size();
    bytes += first.bytes;
    groups.push_back(std::move(first.spans));
    queue_.pop_front();
  }
  queued_spans_ -= spans;
  queued_bytes_ -= bytes;
  full_ = false;
  return groups;
}

void SpanExporter::Run() {
  while (true) {
    std::vector<Group> groups = TakeGroups();
    if (groups.empty()) return;
    SendGroups(std::move(groups));
  }
}

void SpanExporter::SendGroups(std::vector<Group> groups) {
  std::vector<Span> spans = std::move(groups.front());
  for (size_t i = 1; i < groups.size(); ++i) {
    spans.insert(spans.end(), std::make_move_iterator(groups[i].begin()), std::make_move_iterator(groups[i].end()));
  }
  // A single group may have more spans than a batch.
  const absl::Span<const Span> all(spans);
  for (size_t begin = 0; begin < all.size(); begin += options_.batch.max_batch_spans) {
    SendSpans(all.subspan(begin, options_.batch.max_batch_spans));
  }
}

void SpanExporter::SendSpans(absl::Span<const Span> spans) {
  if (cut_) return Count(dropped_at_end_, spans.size());
  const std::string message = options_.encode(spans);
  if (message.size() <= kMaxExportBytes) return SendMessage(message, spans.size());
  if (spans.size() == 1) return Count(dropped_too_large_, 1);
  const size_t half = spans.size() / 2;
  SendSpans(spans.subspan(0, half));
  SendSpans(spans.subspan(half));
}

void SpanExporter::SendMessage(const std::string& message, size_t spans) {
  // When the exporter ends, the batch still has its one try.
  (void)WaitUntil(next_batch_);
  ExportRetry retry(clock_.Now(), options_.batch.export_timeout_ms, random_);
  while (true) {
    const SendResult result = options_.sender->Send(message, retry.TryMs(clock_.Now(), options_.send_timeout_ms));
    if (result.status.ok()) return OnAccepted(result, spans);
    if (cut_) return Count(dropped_at_end_, spans);
    OnFailed(result);
    const TimeNs now = clock_.Now();
    // The collector may ask for more time than this batch has, and the next one waits as long.
    if (result.retryable) next_batch_ = After(now, result.retry_after_ms.value_or(0));
    const std::optional<int64_t> wait_ms = retry.WaitMs(result, now);
    if (!wait_ms.has_value() || !WaitUntil(After(now, *wait_ms))) return Count(failed_, spans);
  }
}

bool SpanExporter::WaitUntil(TimeNs end) {
  const absl::MutexLock lock(&mutex_);
  while (!ending_) {
    const TimeNs left_ns = end - clock_.Now();
    if (left_ns <= 0) return true;
    due_.WaitWithTimeout(&mutex_, absl::Nanoseconds(left_ns));
  }
  return false;
}

void SpanExporter::OnAccepted(const SendResult& result, size_t spans) {
  const size_t rejected = std::min(static_cast<size_t>(std::max<int64_t>(result.rejected_spans, 0)), spans);
  Count(exported_, spans - rejected);
  Count(rejected_, rejected);
  if (!result.message.empty() && !std::exchange(has_warned_of_partial_success_, true)) {
    spdlog::warn("{} took spans but {} of them, and says: {}; this is said once", options_.destination, rejected,
                 result.message);
  }
  if (!std::exchange(is_failing_, false)) return;
  if (const auto left_out = log_limit_.Admit()) {
    spdlog::info("spans reach {} again; {} were lost meanwhile{}", options_.destination,
                 counts().lost() - lost_when_failing_began_, LeftOutNote(*left_out));
  }
}

void SpanExporter::OnFailed(const SendResult& result) {
  if (std::exchange(is_failing_, true)) return;
  lost_when_failing_began_ = counts().lost();
  if (const auto left_out = log_limit_.Admit()) {
    spdlog::warn("spans do not reach {}: {}; requests are served as ever, and spans that find no room are dropped{}",
                 options_.destination, std::string(result.status.message()), LeftOutNote(*left_out));
  }
}

void SpanExporter::Shutdown(int64_t timeout_ms) {
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = true;
    due_.SignalAll();
  }
  if (!thread_.WaitForEnd(timeout_ms)) {
    cut_ = true;
    options_.sender->Cancel();
  }
  thread_.WaitForEnd(std::numeric_limits<int32_t>::max());
}

SpanCounts SpanExporter::counts() const {
  const auto read = [](const std::atomic<uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {.exported = read(exported_),
          .dropped_full = read(dropped_full_),
          .dropped_too_large = read(dropped_too_large_),
          .dropped_at_end = read(dropped_at_end_),
          .failed = read(failed_),
          .rejected = read(rejected_)};
}

}  // namespace baton::telemetry
