#include "router/cluster_stream.h"

#include <grpc/support/time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/rpc/wire.h"

namespace baton::router {
namespace pb = internal::v1;

ClusterStream::ClusterStream(Owner& owner, rpc::EventQueue& events, const rpc::Credentials* credentials)
    : owner_(owner), events_(events), credentials_(credentials), writes_(kMaxUnwrittenRouterBytes) {}

void ClusterStream::Connect(Service& service, grpc::ServerCompletionQueue& accepting) {
  service.RequestJoin(&context_, &call_, &events_.queue(), &accepting, &connected_);
}

absl::Status ClusterStream::CheckRole(pb::WorkerRole role) const {
  if (credentials_ == nullptr) return absl::OkStatus();
  const rpc::Role needed = role == pb::WORKER_ROLE_PREFILL  ? rpc::Role::kPrefillWorker
                           : role == pb::WORKER_ROLE_DECODE ? rpc::Role::kDecodeWorker
                                                            : rpc::Role::kMixedWorker;
  const rpc::RoleSet roles = credentials_->RolesOf(*context_.auth_context());
  if (roles.Has(needed)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the certificate does not carry the role ",
                                                  rpc::RoleNames({needed}, " or "), " that the hello states, but ",
                                                  rpc::RoleNames(roles, " and ")));
}

void ClusterStream::AwaitHello(int64_t timeout_ms) {
  awaits_hello_ = true;
  alarm_set_ = true;
  const gpr_timespec timeout = gpr_time_from_millis(timeout_ms, GPR_TIMESPAN);
  hello_alarm_.Set(&events_.queue(), gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), timeout), &hello_due_);
}

void ClusterStream::Send(size_t bytes, absl::FunctionRef<void(pb::RouterMessage&)> fill) {
  if (end_.has_value()) return;
  if (!writes_.Add(bytes, fill)) {
    end_.emplace(grpc::StatusCode::RESOURCE_EXHAUSTED, "the worker does not read what the router sends");
    // The write in flight may never end by itself.
    context_.TryCancel();
  }
  Advance();
}

void ClusterStream::End(const absl::Status& why) {
  if (end_.has_value()) return;
  end_ = rpc::ToGrpc(why);
  Advance();
}

void ClusterStream::Advance() {
  if (!end_.has_value()) {
    writes_.WriteNext([this](const pb::RouterMessage& message) { call_.Write(message, &write_done_); });
  } else if (!writes_.writing() && !std::exchange(finishing_, true)) {
    call_.Finish(*end_, &finish_done_);
  }
}

void ClusterStream::OnHelloAlarm(bool ok) {
  alarm_set_ = false;
  if (ok && awaits_hello_) {
    owner_.OnHelloTimeout(*this);
    awaits_hello_ = false;
  }
  FinishIfDone();
}

void ClusterStream::OnRead(bool ok) {
  if (alarm_set_) hello_alarm_.Cancel();
  if (ok) {
    owner_.OnMessage(*this);
    awaits_hello_ = false;
    return;
  }
  // The worker has left, or its connection broke.
  closed_ = true;
  if (!end_.has_value()) end_ = grpc::Status::OK;
  owner_.OnClosed(*this);
  awaits_hello_ = false;
  Advance();
  FinishIfDone();
}

void ClusterStream::OnWrite(bool) {
  writes_.WriteDone();
  Advance();
}

void ClusterStream::OnFinish(bool) {
  finished_ = true;
  FinishIfDone();
}

void ClusterStream::FinishIfDone() {
  if (finished_ && closed_ && !alarm_set_) owner_.OnDone(*this);
}

}  // namespace baton::router
