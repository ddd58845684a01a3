#include "common/log_trace.h"

namespace baton {
namespace {

thread_local Id128 current_log_trace;

}  // namespace

LogTrace::LogTrace(const Id128& trace_id) : before_(current_log_trace) { current_log_trace = trace_id; }

LogTrace::~LogTrace() { current_log_trace = before_; }

Id128 LogTrace::current() { return current_log_trace; }

}  // namespace baton
