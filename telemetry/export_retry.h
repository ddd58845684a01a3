// When a batch of spans is sent again, as the specification of OTLP has it: with exponential back-off and jitter, not
// before the collector wants it, and within a bounded time.
#ifndef BATON_TELEMETRY_EXPORT_RETRY_H_
#define BATON_TELEMETRY_EXPORT_RETRY_H_

#include <cstdint>
#include <optional>

#include "common/clock.h"
#include "common/random.h"
#include "telemetry/otlp_sender.h"

namespace baton::telemetry {

inline constexpr int64_t kFirstRetryMs = 500;
inline constexpr int64_t kMaxRetryMs = 8'000;

// Times the tries of one batch. One thread uses it.
class ExportRetry {
 public:
  // All tries and the waits between them take at most `total_ms` from `now` on. `random` outlives this object.
  ExportRetry(TimeNs now, int64_t total_ms, RandomSource& random) : end_(After(now, total_ms)), random_(random) {}

  // How long a try that begins now may take. At least 1.
  int64_t TryMs(TimeNs now, int64_t try_timeout_ms) const;
  // How long to wait after a try that ended now with `result`. nullopt: the batch is given up.
  std::optional<int64_t> WaitMs(const SendResult& result, TimeNs now);

 private:
  const TimeNs end_;
  RandomSource& random_;
  int64_t backoff_ms_ = kFirstRetryMs;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_EXPORT_RETRY_H_
