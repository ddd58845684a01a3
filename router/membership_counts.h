// How many workers joined the router and left it, since it began.
#ifndef BATON_ROUTER_MEMBERSHIP_COUNTS_H_
#define BATON_ROUTER_MEMBERSHIP_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "router/worker_registry.h"

namespace baton::router {

// Why a worker is no member any more.
enum class LossReason : uint8_t {
  kSilent,        // not heard for too long
  kStalled,       // its engine was in one step for too long
  kDisconnected,  // its stream broke, or it broke the protocol
  kDrained,       // it had said that it would leave
  kRejoined,      // its process joined anew
  kFault,         // its process died of a fault of its own
};
inline constexpr std::array kLossReasons = {LossReason::kSilent,  LossReason::kStalled,  LossReason::kDisconnected,
                                            LossReason::kDrained, LossReason::kRejoined, LossReason::kFault};
inline constexpr std::array kWorkerRoles = {WorkerRole::kPrefill, WorkerRole::kDecode, WorkerRole::kMixed};

// "silent", "stalled", ...
const char* LossReasonName(LossReason reason);

struct MembershipCounts {
  std::array<int64_t, kWorkerRoles.size()> joins = {};
  std::array<std::array<int64_t, kLossReasons.size()>, kWorkerRoles.size()> losses = {};
  // Each worker once for each reason, as the log says it.
  int64_t refused = 0;

  void CountJoin(WorkerRole role) { ++joins[static_cast<size_t>(role)]; }
  void CountLoss(WorkerRole role, LossReason reason) {
    ++losses[static_cast<size_t>(role)][static_cast<size_t>(reason)];
  }
};

}  // namespace baton::router

#endif  // BATON_ROUTER_MEMBERSHIP_COUNTS_H_
