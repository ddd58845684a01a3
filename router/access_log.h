// One line in the log for each request that is over, for programs as much as for people: names and values, separated by
// blanks.
//
//   access id=4bf9... outcome=ok finish=stop prompt_tokens=12 output_tokens=64 cached_tokens=0 attempts=1 ttft_ms=21.4
//     itl_ms=6.31 total_ms=419.1 queue_ms=0.4 admission_ms=0.8 prefill_ms=20.2 transfer_ms=0.0 decode_ms=397.6
//     network_ms=0.1 prefill=10.0.0.2:50061 decode=10.0.0.3:50061
#ifndef BATON_ROUTER_ACCESS_LOG_H_
#define BATON_ROUTER_ACCESS_LOG_H_

#include <string>

#include "router/request_record.h"

namespace baton::router {

// The line, without what the logger puts before it. It has no text that a client chose.
std::string AccessLine(const RequestRecord& record);

// Thread-safe.
class AccessLog final : public RequestObserver {
 public:
  void OnRequestEnded(const RequestRecord& record) override;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_ACCESS_LOG_H_
