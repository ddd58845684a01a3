// The progress line of a load.
#ifndef BATON_BENCH_LOAD_PROGRESS_H_
#define BATON_BENCH_LOAD_PROGRESS_H_

#include <string>

#include "bench/load/load_runner.h"
#include "common/clock.h"
#include "common/progress_line.h"

namespace baton::bench {

// Shows `progress` until this object is destroyed.
class LoadProgressLine {
 public:
  LoadProgressLine(std::string label, int total, const LoadProgress& progress, const Clock& clock);

 private:
  std::string Text() const;

  const std::string label_;
  const int total_;
  const LoadProgress& progress_;
  const Clock& clock_;
  const TimeNs begin_;
  ProgressLine line_;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_PROGRESS_H_
