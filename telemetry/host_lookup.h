// Looks a host's addresses up. The system's own function for this cannot be interrupted, so it runs on a thread that
// its caller can leave behind.
#ifndef BATON_TELEMETRY_HOST_LOOKUP_H_
#define BATON_TELEMETRY_HOST_LOOKUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::telemetry {

// One thread uses it; any may call Cancel.
class HostLookup {
 public:
  using Addresses = absl::StatusOr<std::vector<std::string>>;
  // Blocks for as long as it likes. It may still run when the HostLookup is gone.
  using Function = std::function<Addresses(const std::string& host)>;

  // Asks the system.
  HostLookup() : HostLookup(nullptr) {}
  // nullptr asks the system.
  explicit HostLookup(Function look_up);

  // Literal addresses, in the order in which to try them. Blocks for `timeout_ms` at most; a lookup that takes longer
  // goes on, and the next call waits for it, so that there is one at a time.
  Addresses Find(const std::string& host, int64_t timeout_ms);
  // Find returns CANCELLED from now on. Any thread.
  void Cancel();

 private:
  struct State;

  const Function look_up_;
  const std::shared_ptr<State> state_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_HOST_LOOKUP_H_
