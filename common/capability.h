// With TLS, what a router allows the reader of an attempt's KV, as plain data. common/rpc/capability.h signs and
// verifies.
#ifndef BATON_COMMON_CAPABILITY_H_
#define BATON_COMMON_CAPABILITY_H_

#include <cstdint>
#include <string>

#include "common/ids.h"

namespace baton {

// One reader may fetch the KV of one attempt from one source, once, while the source's membership lives.
struct CapabilityTerms {
  JobKey key;
  Incarnation source;
  Incarnation reader;
  // Names the source's membership: rpc::MembershipTag.
  Id128 membership;
  std::string tenant;
  // Blocks of the prompt before this one may not be fetched.
  int32_t first_block = 0;

  friend bool operator==(const CapabilityTerms&, const CapabilityTerms&) = default;
};

// What a source knows of the reader that the router has named for an attempt, and demands of a capability.
struct ExpectedReader {
  // Zero: any. A worker that hands a sequence over does so before the router knows to whom.
  Incarnation incarnation;
  // Tag of the membership under which the source was given the attempt.
  Id128 membership;
};

}  // namespace baton

#endif  // BATON_COMMON_CAPABILITY_H_
