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
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/random.h"
#include "telemetry/otel_settings.h"
#include "telemetry/otlp_sender.h"
#include "telemetry/span.h"

namespace baton::telemetry {

// What the queue may hold besides its bound of spans, because a span may have a prompt.
inline constexpr size_t kMaxQueuedSpanBytes = size_t{32} << 20;
// A message to the collector. Collectors take 4 MiB by default.
inline constexpr size_t kMaxExportBytes = size_t{3} << 20;

// How many spans ended how, since the process began.
struct SpanCounts {
  uint64_t exported = 0;
  // Never sent: the queue was full, a span was too large for a message, or the process ended first.
  uint64_t dropped_full = 0;
  uint64_t dropped_too_large = 0;
  uint64_t dropped_at_end = 0;
  // Sent in vain: the collector could not be reached or refused the batch, or accepted it without these spans.
  uint64_t failed = 0;
  uint64_t rejected = 0;
};

class SpanExporter {
 public:
  struct Options {
    BatchSettings batch;
    // Makes the message of a batch.
    std::function<std::string(absl::Span<const Span>)> encode;
    std::unique_ptr<OtlpSender> sender;
    // Named by the log.
    std::string destination;
  };

  // Starts the thread. `clock` and `random` outlive the exporter; only its thread uses `random`.
  explicit SpanExporter(Options options, const Clock& clock = MonotonicClock(), RandomSource& random = SystemRandom());
  // As Shutdown(0).
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // All spans of one trace, or of a part of it: they are queued or dropped together. Never blocks on the collector.
  // Thread-safe.
  void Export(std::vector<Span> spans) ABSL_LOCKS_EXCLUDED(mutex_);
  // A hint: spans would be dropped now, so whoever makes them may leave it, and count them with CountDropped.
  // Thread-safe.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  void CountDropped(size_t spans) { dropped_full_.fetch_add(spans, std::memory_order_relaxed); }

  // Sends what waits for at most `timeout_ms`, drops the rest and ends the thread. Later spans are dropped.
  void Shutdown(int64_t timeout_ms) ABSL_LOCKS_EXCLUDED(mutex_);

  // Thread-safe.
  SpanCounts counts() const;
  // CPU time of the thread. Thread-safe.
  int64_t cpu_ns() const;

 private:
  struct Batch {
    std::vector<Span> spans;
    size_t bytes = 0;
  };

  void Run();
  // Blocks until a batch is due or the end has come. Empty: the end has come and nothing waits.
  std::vector<Span> TakeBatch() ABSL_LOCKS_EXCLUDED(mutex_);
  void SendBatch(std::vector<Span> spans);
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock& clock_;
  RandomSource& random_;

  absl::Mutex mutex_;
  std::deque<Batch> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_spans_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> full_ = false;
  std::atomic<uint64_t> dropped_full_ = 0;
  std::thread thread_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_SPAN_EXPORTER_H_
