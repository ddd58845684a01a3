#include "discovery/etcd_connection.h"

#include <grpc/support/time.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_cache.h"
#include "common/rpc/wire.h"

namespace baton::discovery {
namespace etcd = etcdserverpb;
namespace {

template <typename Op>
void* TagOf(Op op) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the queue hands the number back.
  return reinterpret_cast<void*>(static_cast<uintptr_t>(op));
}

// Keys from "PREFIX/" to below "PREFIX0", because '0' follows '/'.
template <typename Request>
void SetRange(const std::string& prefix, Request& request) {
  request.set_key(absl::StrCat(prefix, "/"));
  request.set_range_end(absl::StrCat(prefix, "0"));
}

}  // namespace

EtcdConnection::EtcdConnection(const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                               std::string prefix, DirectorySession& session)
    : prefix_(std::move(prefix)), session_(session) {
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(target, credentials, rpc::ChannelArguments());
  keys_ = etcd::KV::NewStub(channel);
  watches_ = etcd::Watch::NewStub(channel);
  leases_ = etcd::Lease::NewStub(channel);
}

EtcdConnection::~EtcdConnection() {
  for (grpc::ClientContext* context :
       {&grant_.context, &put_.context, &list_.context, &revoke_.context, &watch_.context, &lease_.context}) {
    context->TryCancel();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void EtcdConnection::Do(const Action& action) {
  std::visit([this](const auto& one) { Begin(one); }, action);
}

void EtcdConnection::Begin(const action::Grant& grant) {
  etcd::LeaseGrantRequest request;
  request.set_ttl(grant.ttl_s);
  grant_.reader = leases_->AsyncLeaseGrant(&grant_.context, request, &queue_);
  grant_.reader->Finish(&grant_.response, &grant_.status, TagOf(Op::kGrant));
}

void EtcdConnection::Begin(const action::Put& put) {
  etcd::PutRequest request;
  request.set_key(put.key);
  request.set_value(put.value);
  request.set_lease(put.lease);
  put_.reader = keys_->AsyncPut(&put_.context, request, &queue_);
  put_.reader->Finish(&put_.response, &put_.status, TagOf(Op::kPut));
}

void EtcdConnection::Begin(const action::List& list) {
  etcd::RangeRequest request;
  SetRange(prefix_, request);
  request.set_limit(static_cast<int64_t>(kMaxDirectoryEntries));
  list_.reader = keys_->AsyncRange(&list_.context, request, &queue_);
  list_.reader->Finish(&list_.response, &list_.status, TagOf(Op::kList));
}

void EtcdConnection::Begin(const action::Revoke& revoke) {
  etcd::LeaseRevokeRequest request;
  request.set_id(revoke.lease);
  revoke_.reader = leases_->AsyncLeaseRevoke(&revoke_.context, request, &queue_);
  revoke_.reader->Finish(&revoke_.response, &revoke_.status, TagOf(Op::kRevoke));
}

void EtcdConnection::Begin(const action::Watch& watch) {
  watch_from_ = watch.from_revision;
  watch_.call = watches_->AsyncWatch(&watch_.context, &queue_, TagOf(Op::kWatchStart));
}

// One is written at a time. A second that is asked for meanwhile would say the same.
void EtcdConnection::Begin(const action::KeepAlive& keep_alive) {
  lease_id_ = keep_alive.lease;
  if (std::exchange(lease_writing_, true)) return;
  if (lease_.call != nullptr) return WriteKeepAlive();
  lease_.call = leases_->AsyncLeaseKeepAlive(&lease_.context, &queue_, TagOf(Op::kLeaseStart));
}

void EtcdConnection::WriteKeepAlive() {
  etcd::LeaseKeepAliveRequest request;
  request.set_id(lease_id_);
  lease_.call->Write(request, TagOf(Op::kLeaseWrite));
}

void EtcdConnection::Await(int64_t timeout_ms) {
  void* tag = nullptr;
  bool ok = false;
  const gpr_timespec until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
  if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) return;
  OnDone(static_cast<Op>(reinterpret_cast<uintptr_t>(tag)), ok);
}

void EtcdConnection::OnDone(Op op, bool ok) {
  switch (op) {
    case Op::kGrant:
      if (!IsBroken(grant_.status)) session_.OnGranted(grant_.response.id(), grant_.response.ttl());
      break;
    case Op::kPut:
      if (!IsBroken(put_.status)) session_.OnPut();
      break;
    case Op::kList:
      if (!IsBroken(list_.status)) OnListed();
      break;
    case Op::kRevoke:
      if (!IsBroken(revoke_.status)) session_.OnRevoked();
      break;
    case Op::kWatchStart:
    case Op::kWatchWrite:
    case Op::kWatchRead:
    case Op::kWatchFinish:
      return OnWatch(op, ok);
    case Op::kLeaseStart:
    case Op::kLeaseWrite:
    case Op::kLeaseRead:
    case Op::kLeaseFinish:
      return OnLease(op, ok);
  }
}

bool EtcdConnection::IsBroken(const grpc::Status& status) {
  if (!status.ok()) session_.OnBroken(rpc::FromGrpc(status));
  return !status.ok();
}

void EtcdConnection::OnListed() {
  Entries entries;
  for (etcd::KeyValue& pair : *list_.response.mutable_kvs()) {
    entries.emplace(std::move(*pair.mutable_key()), std::move(*pair.mutable_value()));
  }
  session_.OnListed(std::move(entries), list_.response.header().revision());
}

void EtcdConnection::OnWatch(Op op, bool ok) {
  if (op == Op::kWatchFinish) return session_.OnBroken(rpc::FromGrpc(watch_.status));
  if (op == Op::kWatchStart && ok) {
    etcd::WatchRequest request;
    SetRange(prefix_, *request.mutable_create_request());
    request.mutable_create_request()->set_start_revision(watch_from_);
    watch_.call->Write(request, TagOf(Op::kWatchWrite));
    watch_.call->Read(&watch_.response, TagOf(Op::kWatchRead));
  }
  if (op == Op::kWatchRead && ok) OnWatchRead();
  // A read is always under way, and tells that the stream broke.
  if (op != Op::kWatchWrite && !ok) watch_.call->Finish(&watch_.status, TagOf(Op::kWatchFinish));
}

void EtcdConnection::OnWatchRead() {
  if (watch_.response.canceled()) {
    return session_.OnBroken(
        absl::UnavailableError(absl::StrCat("the store has ended the watch: ", watch_.response.cancel_reason())));
  }
  std::vector<EntryChange> changes;
  for (etcd::Event& event : *watch_.response.mutable_events()) {
    changes.push_back({.key = std::move(*event.mutable_kv()->mutable_key()),
                       .value = std::move(*event.mutable_kv()->mutable_value()),
                       .deleted = event.type() == etcd::Event::DELETE});
  }
  watch_.call->Read(&watch_.response, TagOf(Op::kWatchRead));
  session_.OnChanges(changes);
}

void EtcdConnection::OnLease(Op op, bool ok) {
  if (op == Op::kLeaseFinish) return session_.OnBroken(rpc::FromGrpc(lease_.status));
  if (op == Op::kLeaseWrite) {
    lease_writing_ = false;
    return;
  }
  if (!ok) return lease_.call->Finish(&lease_.status, TagOf(Op::kLeaseFinish));
  if (op == Op::kLeaseStart) {
    WriteKeepAlive();
  } else {
    session_.OnKeptAlive(lease_.response.ttl());
  }
  lease_.call->Read(&lease_.response, TagOf(Op::kLeaseRead));
}

}  // namespace baton::discovery
