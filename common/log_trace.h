// The trace to which the log lines of a thread belong.
#ifndef BATON_COMMON_LOG_TRACE_H_
#define BATON_COMMON_LOG_TRACE_H_

#include "common/ids.h"

namespace baton {

// As long as this object lives, the lines that its thread logs state `trace_id`. A zero id states none. Objects nest;
// the innermost one counts.
class LogTrace {
 public:
  explicit LogTrace(const Id128& trace_id);
  ~LogTrace();
  LogTrace(const LogTrace&) = delete;
  LogTrace& operator=(const LogTrace&) = delete;

  // The trace of the calling thread; zero outside of any.
  static Id128 current();

 private:
  const Id128 before_;
};

}  // namespace baton

#endif  // BATON_COMMON_LOG_TRACE_H_
