// Bounds how often one place of the program logs, for lines that clients, peers or a broken network may repeat without
// end.
//
//   static LogLimit limit;
//   if (const auto left_out = limit.Admit()) spdlog::warn("client {} is slow{}", peer, LeftOutNote(*left_out));
#ifndef BATON_COMMON_LOG_LIMIT_H_
#define BATON_COMMON_LOG_LIMIT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"

namespace baton {

struct LogLimitOptions {
  // A period has at most this many lines. It begins with a line that no other period covers.
  int lines_per_period = 5;
  int64_t period_ms = 10'000;
};

// Thread-safe.
class LogLimit {
 public:
  using Options = LogLimitOptions;

  // `clock` outlives the limit.
  explicit LogLimit(const Options& options = {}, const Clock& clock = MonotonicClock());

  // nullopt: the line is left out, and counted. Otherwise how many lines this limit has left out since the last one
  // that it admitted.
  std::optional<uint64_t> Admit() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Options options_;
  const Clock& clock_;
  absl::Mutex mutex_;
  TimeNs period_end_ ABSL_GUARDED_BY(mutex_) = 0;
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// " (7 similar lines left out)", or nothing for 0.
std::string LeftOutNote(uint64_t left_out);

// How many lines all limits of the process have left out. Thread-safe.
uint64_t DroppedLogLines();

}  // namespace baton

#endif  // BATON_COMMON_LOG_LIMIT_H_
