// Faults that a test plants between a worker and its transport: BATON_TEST_TRANSFER_FAULTS=flip:5 plants one in every
// fifth read. Without that variable the transport is used as it is.
//
//   flip    one bit of what was read is another
//   stale   the read succeeds, and its bytes are those from before it
//   error   the read fails, with UNAVAILABLE
//   delay   the read completes 50 ms late
//
// Each fault of the first three kinds is a line of the log, so that a test can compare what was planted with what was
// found. Old bytes that equal those that came for them are none.
#ifndef BATON_KVTRANSFER_TEST_TRANSFER_FAULTS_H_
#define BATON_KVTRANSFER_TEST_TRANSFER_FAULTS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "kvtransfer/region_copies.h"
#include "kvtransfer/transport.h"

namespace baton::kvtransfer {

struct TransferFaults {
  enum class Kind : uint8_t { kFlip, kStale, kError, kDelay };
  static constexpr int64_t kDelayMs = 50;

  Kind kind = Kind::kFlip;
  int every = 1;
};

// "flip:5"; INVALID_ARGUMENT for anything else than a kind and a positive number.
absl::StatusOr<TransferFaults> ParseTransferFaults(std::string_view text);

// `transport` with the faults, planted by `copies` to and from its region. Probes have none. `clock` outlives the
// result.
std::unique_ptr<Transport> WithTransferFaults(std::unique_ptr<Transport> transport,
                                              std::unique_ptr<RegionCopies> copies, const TransferFaults& faults,
                                              const Clock& clock);

// With the faults that the environment names, if it names any. `memory` is the transport's (TransportOptions).
absl::StatusOr<std::unique_ptr<Transport>> WithTestTransferFaults(std::unique_ptr<Transport> transport,
                                                                  MemoryAccess* memory);

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TEST_TRANSFER_FAULTS_H_
