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

// For the host `name` alone, valid for an hour.
SelfSigned MakeSelfSigned(const std::string& name);

}  // namespace baton::telemetry

#endif  // BATON_TELEMETRY_TESTING_SELF_SIGNED_H_
