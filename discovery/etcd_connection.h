// One connection to an etcd: does what a DirectorySession asks for, and tells it the answers. The API is that of etcd's
// version 3 (proto/etcd).
#ifndef BATON_DISCOVERY_ETCD_CONNECTION_H_
#define BATON_DISCOVERY_ETCD_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/clock.h"
#include "discovery/directory_session.h"
#include "etcd/rpc.grpc.pb.h"

namespace baton::discovery {

// Used by one thread.
class EtcdConnection {
 public:
  // To host:port. The session, which outlives the connection, gets its events from Do and from Await. `prefix` has no
  // slash at its end.
  EtcdConnection(const std::string& target, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                 std::string prefix, DirectorySession& session);
  // Gives up all calls.
  ~EtcdConnection();

  // One of the actions that have an answer.
  void Do(const Action& action);
  // Until an answer has come, or for `timeout_ms`.
  void Await(int64_t timeout_ms);

 private:
  enum class Op : uint8_t {
    kGrant,
    kPut,
    kList,
    kRevoke,
    kWatchStart,
    kWatchWrite,
    kWatchRead,
    kWatchFinish,
    kLeaseStart,
    kLeaseWrite,
    kLeaseRead,
    kLeaseFinish,
  };
  template <typename Response>
  struct Unary {
    grpc::ClientContext context;
    Response response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  };
  template <typename Request, typename Response>
  struct Stream {
    grpc::ClientContext context;
    Response response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncReaderWriter<Request, Response>> call;
  };

  void Begin(const action::Grant& grant);
  void Begin(const action::Put& put);
  void Begin(const action::List& list);
  void Begin(const action::Watch& watch);
  void Begin(const action::KeepAlive& keep_alive);
  void Begin(const action::Revoke& revoke);
  // These two are the owner's, not the store's.
  void Begin(const action::HangUp& hang_up) {}
  void Begin(const action::Changed& changed) {}

  void OnDone(Op op, bool ok);
  // Tells the session of a call that failed.
  bool IsBroken(const grpc::Status& status);
  void OnListed();
  void OnWatch(Op op, bool ok);
  void OnWatchRead();
  void OnLease(Op op, bool ok);
  void WriteKeepAlive();

  const std::string prefix_;
  DirectorySession& session_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<etcdserverpb::KV::Stub> keys_;
  std::unique_ptr<etcdserverpb::Watch::Stub> watches_;
  std::unique_ptr<etcdserverpb::Lease::Stub> leases_;

  // Each is used once on a connection, because the session is in one state after the other.
  Unary<etcdserverpb::LeaseGrantResponse> grant_;
  Unary<etcdserverpb::PutResponse> put_;
  Unary<etcdserverpb::RangeResponse> list_;
  Unary<etcdserverpb::LeaseRevokeResponse> revoke_;
  Stream<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse> watch_;
  Stream<etcdserverpb::LeaseKeepAliveRequest, etcdserverpb::LeaseKeepAliveResponse> lease_;
  int64_t watch_from_ = 0;
  int64_t lease_id_ = 0;
  bool lease_writing_ = false;
};

}  // namespace baton::discovery

#endif  // BATON_DISCOVERY_ETCD_CONNECTION_H_
