#include "router/membership_counts.h"

namespace baton::router {

const char* LossReasonName(LossReason reason) {
  switch (reason) {
    case LossReason::kSilent:
      return "silent";
    case LossReason::kStalled:
      return "stalled";
    case LossReason::kDisconnected:
      return "disconnected";
    case LossReason::kDrained:
      return "drained";
    case LossReason::kRejoined:
      return "rejoined";
    case LossReason::kFault:
      break;
  }
  return "fault";
}

}  // namespace baton::router
