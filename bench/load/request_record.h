// What the load generator notes about one request.
#ifndef BATON_BENCH_LOAD_REQUEST_RECORD_H_
#define BATON_BENCH_LOAD_REQUEST_RECORD_H_

#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"

namespace baton::bench {

struct RequestRecord {
  int prompt_tokens = 0;
  // Output tokens as the server counts them.
  int output_tokens = 0;
  // When the request was due by the plan. A generator that falls behind counts as waiting time.
  TimeNs start = 0;
  TimeNs end = 0;
  // When each message with output arrived, in order.
  std::vector<TimeNs> outputs;
  absl::Status status;
  // The run was stopped while this request was in flight: it has neither completed nor failed.
  bool was_cut = false;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_REQUEST_RECORD_H_
