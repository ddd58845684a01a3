// How a phase's service takes a call of the router: opens its stream, and hands the job and a later cancellation to the
// phase's core on the loop.
#ifndef BATON_WORKER_ACCEPT_CALL_H_
#define BATON_WORKER_ACCEPT_CALL_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/update_streams.h"
#include "worker/worker_core.h"

namespace baton::worker {

// The core as a gRPC thread may reach it: `core` is only touched on `worker`'s loop. All outlive the call.
template <typename Core, typename Response>
struct CallTarget {
  // Names the phase in messages.
  std::string phase;
  WorkerCore& worker;
  Core& core;
  UpdateStreams<Response>& streams;
};

// `start` runs on the loop, unless the attempt has a call already.
template <typename Core, typename Response, typename Start>
typename UpdateStreams<Response>::Stream* AcceptCall(const CallTarget<Core, Response>& target, const JobKey& key,
                                                     Start start) {
  bool opened = false;
  auto stream = target.streams.Open(
      key,
      [&worker = target.worker, &core = target.core, phase = target.phase, key] {
        const bool posted =
            worker.loop().Post([&core, key] { core.OnCancel(key, absl::CancelledError("the router cancelled")); });
        if (!posted) spdlog::warn("the {} loop takes no more events: a cancellation waits for its deadline", phase);
      },
      opened);
  if (!opened) return stream.get();
  const bool posted = target.worker.loop().Post(std::move(start));
  if (!posted) {
    target.streams.End(key, absl::ResourceExhaustedError(absl::StrCat("the ", target.phase, " worker is overloaded")));
  }
  return stream.get();
}

}  // namespace baton::worker

#endif  // BATON_WORKER_ACCEPT_CALL_H_
