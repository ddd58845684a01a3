// A time that has passed, for people to read in a log.
#ifndef BATON_COMMON_DURATION_TEXT_H_
#define BATON_COMMON_DURATION_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace baton {

// "3.2 s", or "1h2m3s" from a minute on.
inline std::string DurationText(int64_t time_ns) {
  if (time_ns < 60 * kNsPerSecond) {
    return absl::StrFormat("%.1f s", static_cast<double>(time_ns) / static_cast<double>(kNsPerSecond));
  }
  return absl::FormatDuration(absl::Trunc(absl::Nanoseconds(time_ns), absl::Seconds(1)));
}

}  // namespace baton

#endif  // BATON_COMMON_DURATION_TEXT_H_
