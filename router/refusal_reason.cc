#include "router/refusal_reason.h"

#include "absl/strings/cord.h"

namespace baton::router {
namespace {

constexpr char kReasonUrl[] = "baton/refusal_reason";

RefusalReason ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return RefusalReason::kInvalid;
    case absl::StatusCode::kUnimplemented:
      return RefusalReason::kUnsupported;
    default:
      return RefusalReason::kOther;
  }
}

}  // namespace

const char* RefusalReasonName(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kInvalid:
      return "invalid";
    case RefusalReason::kUnsupported:
      return "unsupported";
    case RefusalReason::kTooLong:
      return "too_long";
    case RefusalReason::kQueueFull:
      return "queue_full";
    case RefusalReason::kDeadline:
      return "deadline";
    case RefusalReason::kTenantRate:
      return "tenant_rate";
    case RefusalReason::kClientWorkFull:
      return "client_work_full";
    case RefusalReason::kDraining:
      return "draining";
    case RefusalReason::kNoWorkers:
      return "no_workers";
    case RefusalReason::kSlowReader:
      return "slow_reader";
    case RefusalReason::kPoisoned:
      return "poisoned";
    case RefusalReason::kOther:
      break;
  }
  return "other";
}

absl::Status WithReason(absl::Status status, RefusalReason reason) {
  status.SetPayload(kReasonUrl, absl::Cord(RefusalReasonName(reason)));
  return status;
}

absl::Status SlowReader() {
  return WithReason(absl::ResourceExhaustedError("the client does not read its stream: it was cut"),
                    RefusalReason::kSlowReader);
}

absl::Status ClientWorkFull() {
  return WithReason(absl::ResourceExhaustedError("too many requests wait to be read: try again"),
                    RefusalReason::kClientWorkFull);
}

RefusalReason GetRefusalReason(const absl::Status& status) {
  if (const auto name = status.GetPayload(kReasonUrl)) {
    for (const RefusalReason reason : kRefusalReasons) {
      if (*name == RefusalReasonName(reason)) return reason;
    }
  }
  return ReasonOfCode(status.code());
}

}  // namespace baton::router
