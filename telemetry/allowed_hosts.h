// Under which names a server answers. A web page can make a browser send requests to any address by DNS rebinding, but
// the browser then names the page's host in `Host`.
#ifndef BATON_TELEMETRY_ALLOWED_HOSTS_H_
#define BATON_TELEMETRY_ALLOWED_HOSTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace baton::telemetry {

enum class HostVerdict : uint8_t { kAllowed, kRefused, kMalformed };

class AllowedHosts {
 public:
  // Literal IP addresses and localhost are always allowed, and `bind` where it is a name. `names` are host names
  // without ports, or "*", which allows every name.
  AllowedHosts(std::string_view bind, const std::vector<std::string>& names);

  // `authority` is the value of a Host header: host, host:port, [v6] or [v6]:port. The port does not matter, and
  // neither do upper case and a dot at the end.
  HostVerdict Check(std::string_view authority) const;

 private:
  bool allows_all_ = false;
  absl::flat_hash_set<std::string> names_;
};

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_ALLOWED_HOSTS_H_
