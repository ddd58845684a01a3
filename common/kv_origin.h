// A worker that KV came from or through. What it gave serves only the jobs whose own KV comes the same way, so a worker
// that gives wrong KV does not reach the jobs of others.
#ifndef BATON_COMMON_KV_ORIGIN_H_
#define BATON_COMMON_KV_ORIGIN_H_

#include <string>

#include "common/ids.h"

namespace baton {

struct KvOrigin {
  Incarnation incarnation;
  // host:port, where its KV was asked for. A worker states its incarnation itself, but answers at its own address
  // alone.
  std::string target;

  friend bool operator==(const KvOrigin&, const KvOrigin&) = default;
};

}  // namespace baton

#endif  // BATON_COMMON_KV_ORIGIN_H_
