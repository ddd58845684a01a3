#ifndef BATON_KVTRANSFER_PENDING_READ_H_
#define BATON_KVTRANSFER_PENDING_READ_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

// A read that a transport hands to its reader over a network.
struct PendingRead {
  ReadId read = 0;
  PeerId peer = 0;
  // Zero for a probe.
  Id128 fetch;
  uint8_t* local = nullptr;
  // Checked and coalesced.
  std::vector<CopyRange> ranges;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_PENDING_READ_H_
