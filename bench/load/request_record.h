// What a load generator noted of one request.
#ifndef BATON_BENCH_LOAD_REQUEST_RECORD_H_
#define BATON_BENCH_LOAD_REQUEST_RECORD_H_

#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"

namespace baton::bench {

struct RequestRecord {
  int prompt_tokens = 0;
  // As the server counts them.
  int output_tokens = 0;
  // When the plan wanted it sent: a generator that fell behind counts as waiting.
  TimeNs start = 0;
  TimeNs end = 0;
  // When each message with output came, in order.
  std::vector<TimeNs> outputs;
  absl::Status status;
};

}  // namespace baton::bench

#endif  // BATON_BENCH_LOAD_REQUEST_RECORD_H_
