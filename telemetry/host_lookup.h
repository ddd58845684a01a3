// Looks a host's addresses up. The system's own function for this cannot be interrupted, so it runs on a thread that
// its caller can leave behind.
#ifndef BATON_TELEMETRY_HOST_LOOKUP_H_
#define BATON_TELEMETRY_HOST_LOOKUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace baton::telemetry {

// Used by one thread, besides Cancel.
class HostLookup {
 public:
  // Literal addresses, in the order in which to try them. Blocks for `timeout_ms` at most; a lookup that takes longer
  // goes on, and the next call waits for it, so that there is one at a time.
  absl::StatusOr<std::vector<std::string>> Find(const std::string& host, int64_t timeout_ms);
  // Find returns CANCELLED from now on. Any thread.
  void Cancel();

 private:
  struct State;

  const std::shared_ptr<State> state_ = MakeState();
  static std::shared_ptr<State> MakeState();
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_HOST_LOOKUP_H_
