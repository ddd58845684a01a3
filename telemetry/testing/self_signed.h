// A certificate for tests of TLS.
#ifndef BATON_TELEMETRY_TESTING_SELF_SIGNED_H_
#define BATON_TELEMETRY_TESTING_SELF_SIGNED_H_

#include <string>

namespace baton::telemetry {

struct SelfSigned {
  // PEM.
  std::string key;
  std::string certificate;
};

// For the one host that `name` names as certificates do, "DNS:localhost" or "IP:127.0.0.1". Valid for an hour.
SelfSigned MakeSelfSigned(const std::string& name);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_TESTING_SELF_SIGNED_H_
