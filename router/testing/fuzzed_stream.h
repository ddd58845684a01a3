// The router's end of a fuzzed worker's stream. For fuzzers.
#ifndef BATON_ROUTER_TESTING_FUZZED_STREAM_H_
#define BATON_ROUTER_TESTING_FUZZED_STREAM_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/check.h"
#include "router/worker_stream.h"

namespace baton::router {

// The router's end of a stream whose worker reads at once, or not any more.
class FuzzedStream final : public WorkerStream {
 public:
  void Send(size_t bytes, absl::FunctionRef<void(internal::v1::RouterMessage&)> fill) override {
    constexpr size_t kMostUnread = 1'024;
    if (is_ended) return;
    const size_t before = said.ByteSizeLong();
    fill(said);
    BATON_CHECK(said.ByteSizeLong() <= before + bytes) << "a message takes more than was said";
    if (!worker_reads && said.ByteSizeLong() > kMostUnread) is_ended = true;
  }
  void End(const absl::Status& why) override {
    BATON_CHECK(!why.ok() && !why.message().empty());
    is_ended = true;
  }
  bool ended() const override { return is_ended; }

  // What the worker has not read.
  internal::v1::RouterMessage said;
  bool worker_reads = true;
  bool is_ended = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_TESTING_FUZZED_STREAM_H_
