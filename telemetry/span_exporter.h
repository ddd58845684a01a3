// Takes finished spans from any thread and sends them to a collector from a thread of its own. A collector that is
// gone, slow or refuses costs the spans and nothing else.
#ifndef BATON_TELEMETRY_SPAN_EXPORTER_H_
#define BATON_TELEMETRY_SPAN_EXPORTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/log_limit.h"
#include "common/random.h"
#include "telemetry/background_thread.h"
#include "telemetry/otel_settings.h"
#include "telemetry/otlp_sender.h"
#include "telemetry/span.h"

namespace baton::telemetry {

// What the queue may hold besides its bound of spans, because a span may have a prompt.
inline constexpr size_t kMaxQueuedSpanBytes = size_t{32} << 20;
// A message to the collector. Collectors take 4 MiB by default.
inline constexpr size_t kMaxExportBytes = size_t{3} << 20;

// How many spans ended how. Each span counts once.
struct SpanCounts {
  uint64_t exported = 0;
  // Never sent: the queue was full, a span was too large for a message, or the process ended first.
  uint64_t dropped_full = 0;
  uint64_t dropped_too_large = 0;
  uint64_t dropped_at_end = 0;
  // Sent in vain: the collector could not be reached or refused the batch, or accepted the batch without these spans.
  uint64_t failed = 0;
  uint64_t rejected = 0;

  uint64_t lost() const { return dropped_full + dropped_too_large + dropped_at_end + failed + rejected; }
};

// Thread-safe.
class SpanExporter {
 public:
  struct Options {
    BatchSettings batch = {};
    // Makes the message of a batch.
    std::function<std::string(absl::Span<const Span>)> encode;
    std::unique_ptr<OtlpSender> sender;
    // Limits each try of the sender.
    int64_t send_timeout_ms = 10'000;
    // Where the spans go, for the log.
    std::string destination = {};
  };

  // Starts the thread. `clock`, which is monotonic, and `random` outlive the exporter; only its thread uses `random`.
  explicit SpanExporter(Options options, const Clock& clock = MonotonicClock(), RandomSource& random = SystemRandom());
  // Calls Shutdown(0).
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // The spans of one request, which are queued or dropped together. Never waits for the collector.
  void Export(std::vector<Span> spans) ABSL_LOCKS_EXCLUDED(mutex_);
  // The queue was full a moment ago, so whoever makes spans may leave it, and count them with CountDropped instead.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  void CountDropped(size_t spans) { dropped_full_.fetch_add(spans, std::memory_order_relaxed); }

  // Sends what waits, each batch once and all within `timeout_ms`, drops the rest and ends the thread. Later spans are
  // dropped. One thread calls it.
  void Shutdown(int64_t timeout_ms) ABSL_LOCKS_EXCLUDED(mutex_);

  SpanCounts counts() const;
  // CPU time of the thread.
  int64_t cpu_ns() const { return thread_.cpu_ns(); }

 private:
  using Group = std::vector<Span>;
  struct QueuedGroup {
    Group spans;
    size_t bytes = 0;
  };

  void Run();
  // The spans of the next batch, when one is due. Empty: the exporter ends, and nothing waits.
  std::vector<Group> TakeGroups() ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendGroups(std::vector<Group> groups);
  // Sends what fits into one message, in several where it does not.
  void SendSpans(absl::Span<const Span> spans);
  void SendMessage(const std::string& message, size_t spans);
  // False: the exporter ends.
  bool WaitUntil(TimeNs end) ABSL_LOCKS_EXCLUDED(mutex_);
  bool ending() const ABSL_LOCKS_EXCLUDED(mutex_);
  void OnAccepted(const SendResult& result, size_t spans);
  void OnFailed(const SendResult& result);

  const Options options_;
  const Clock& clock_;
  RandomSource& random_;

  mutable absl::Mutex mutex_;
  // Signalled when a first span waits, when a batch becomes due, and at the end.
  absl::CondVar due_;
  std::deque<QueuedGroup> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_spans_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<bool> full_ = false;
  // The time for the last batches is over.
  std::atomic<bool> cut_ = false;
  std::atomic<uint64_t> exported_ = 0;
  std::atomic<uint64_t> dropped_full_ = 0;
  std::atomic<uint64_t> dropped_too_large_ = 0;
  std::atomic<uint64_t> dropped_at_end_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  std::atomic<uint64_t> rejected_ = 0;

  // The thread alone uses these. Before this time the collector wants no batch.
  TimeNs next_batch_ = 0;
  // For the log.
  bool is_failing_ = false;
  uint64_t lost_when_failing_began_ = 0;
  bool has_warned_of_partial_success_ = false;
  LogLimit log_limit_;

  BackgroundThread thread_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_SPAN_EXPORTER_H_
