#include "kvtransfer/transport_access.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "kvtransfer/transport_address.h"

namespace baton::kvtransfer {
namespace {

std::string PidNamespace() {
  char name[PATH_MAX];
  const ssize_t length = readlink("/proc/self/ns/pid", name, sizeof(name));
  return length <= 0 ? "" : std::string(name, static_cast<size_t>(length));
}

}  // namespace

ReaderProcess ThisProcess() { return {.host = HostIdentity(), .pid_namespace = PidNamespace(), .pid = getpid()}; }

void TransportAccess::Allow(const Id128& fetch, absl::Span<const RegionRange> ranges) {
  transport_.grants().Grant(fetch, ranges);
}

bool TransportAccess::Stop(const Id128& fetch, const ReaderProcess& reader) {
  return transport_.grants().Withdraw(fetch) && !MayMap(reader);
}

// A reader that does not say where it runs may be anywhere. One that lies harms itself alone: it gets bytes that differ
// from their digests.
bool TransportAccess::MayMap(const ReaderProcess& reader) const {
  if (!transport_.shares_memory()) return false;
  if (reader.host.empty() || own_.host.empty()) return true;
  if (reader.host != own_.host) return false;
  if (reader.pid <= 0 || reader.pid_namespace.empty() || reader.pid_namespace != own_.pid_namespace) return true;
  return kill(reader.pid, 0) == 0 || errno != ESRCH;
}

}  // namespace baton::kvtransfer
