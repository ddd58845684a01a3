// The workers that have joined, as the router speaks to them: what each message of a worker means, and the calls that
// each has been given. Knows no transport: a stream is a WorkerStream.
//
//   stream     | event                             | next       | actions
//   -----------+-----------------------------------+------------+------------------------------------------------------
//   new        | a hello that the registry accepts | member     | Dispatcher::OnWorkerJoin; accepted
//   new        | anything else                     | ended      | End(why), logged
//   member     | load                              | member     | Dispatcher::OnWorkerLoad
//   member     | a report of an open call          | member     | Dispatcher::OnWorkerUpdate, OnWorkerEnd
//   member     | a report of its blocks            | member     | Dispatcher::OnWorkerBlocks; logged when it has news
//   member     | the second message of a worker    | member     | drain_accepted: all that was placed before the first
//              | that drains                       |            | one has been sent
//   member     | DrainWorker                       | member     | drain, logged
//   member     | a malformed message, or another   | ended      | End(INVALID_ARGUMENT), Dispatcher::OnWorkerLost
//              | membership's id                   |            |
//   member     | its process dies of a fault       | ended      | End(UNAVAILABLE), logged, Dispatcher::OnWorkerFault
//   member     | the stream closes                 | ended      | Dispatcher::OnWorkerLost
//   member     | EndMembership                     | ended      | End(why)
//   ended      | anything                          | ended      | (ignored)
#ifndef BATON_ROUTER_CLUSTER_MEMBERS_H_
#define BATON_ROUTER_CLUSTER_MEMBERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "baton/internal/v1/worker.pb.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/rpc/capability.h"
#include "router/dispatcher.h"
#include "router/router_loop.h"
#include "router/worker_stream.h"

namespace baton::router {

struct ClusterMembersOptions {
  // Name by which clients ask for the model. Workers with another name are refused.
  std::string model;
  // Token ids of the model. Workers that state another number are refused: under one name they would misread the
  // prompts. 0 takes any.
  int32_t vocab_size = 0;
  // Told on the loop, whenever that changes, whether some group of workers can serve a request. It cannot at first.
  std::function<void(bool)> on_serving = [](bool) {};
  // Signs what readers of KV show to its sources. Null in plain text, where the attempt's secret is enough; outlives
  // the members.
  rpc::CapabilitySigner* capabilities = nullptr;
};

// Used by one thread, the router's loop.
class ClusterMembers final : public WorkerCalls {
 public:
  // `clock` and `random`, which draws the memberships, outlive it.
  ClusterMembers(ClusterMembersOptions options, const Clock& clock, RandomSource& random)
      : options_(std::move(options)), clock_(clock), random_(random) {}

  void OnMessage(Dispatcher& dispatcher, const std::shared_ptr<WorkerStream>& stream,
                 const internal::v1::WorkerMessage& message);
  // These workers are announced now, by what they will say in their hellos. Whoever may write to the directory has
  // written them: those that could not join are left out.
  void OnAnnounced(Dispatcher& dispatcher, const std::vector<internal::v1::Hello>& hellos);
  // Nothing more comes from the stream.
  void OnClosed(Dispatcher& dispatcher, const WorkerStream& stream);

  // A worker that is no member any more is passed over: the dispatcher has heard of its loss.
  void Start(const StartPrefill& start) override;
  void Start(const StartDecode& start) override;
  void Cancel(const CancelAttempt& cancel) override;
  void Move(const HandOverAttempt& move) override;
  void End(const EndMembership& end) override;
  void Drain(const DrainWorker& drain) override;

  // The router ends: so do all streams.
  void EndAll(const absl::Status& why);

 private:
  using Call = std::pair<Side, JobKey>;
  struct Member {
    std::shared_ptr<WorkerStream> stream;
    // For people: role, address and pid.
    std::string name;
    TimeNs joined_at = 0;
    bool draining = false;
    bool drain_accepted = false;
    // Its version knows capabilities.
    bool has_capabilities = false;
    // The key that it was told last.
    std::shared_ptr<const internal::v1::CapabilityKey> capability_key;
    uint64_t last_call = 0;
    absl::flat_hash_map<uint64_t, Call> calls;
    absl::flat_hash_map<Call, uint64_t> numbers;
  };

  void Join(Dispatcher& dispatcher, const std::shared_ptr<WorkerStream>& stream,
            const internal::v1::WorkerMessage& message);
  absl::Status TryJoin(Dispatcher& dispatcher, const std::shared_ptr<WorkerStream>& stream,
                       const internal::v1::WorkerMessage& message);
  void OnRefused(Dispatcher& dispatcher, const internal::v1::WorkerMessage& message, const absl::Status& why);
  absl::Status Read(Dispatcher& dispatcher, const WorkerId& id, Member& member,
                    const internal::v1::WorkerMessage& message);
  absl::Status ReadLoad(Dispatcher& dispatcher, const WorkerId& id, Member& member, const internal::v1::Load& load);
  static absl::Status ReadBlocks(Dispatcher& dispatcher, const WorkerId& id, const Member& member,
                                 const internal::v1::BlockReport& blocks);
  static absl::Status ReadReports(Dispatcher& dispatcher, Member& member, const internal::v1::WorkerMessage& message);
  // The worker has broken the protocol.
  void Break(Dispatcher& dispatcher, const WorkerId& id, const Member& member, const absl::Status& how);
  void OnFault(Dispatcher& dispatcher, const WorkerId& id, const Member& member, const internal::v1::Fault& fault);
  // Whether a capability is due: both workers have to know what that is. An attempt without a pair has none.
  bool NeedsCapability(const WorkerId& source, const WorkerId& reader) const;
  // Likewise, where any worker that may go on with what `source` decodes can be the reader.
  bool NeedsCapabilityOfAny(const WorkerId& source) const;
  void AddCapability(const StartDecode& start, internal::v1::DecodeStart* decode);
  void StartCall(const WorkerId& worker, Call call, internal::v1::CallStart start);
  void Forget(const WorkerId& worker);
  // "after 3.2 s as a member, with 4 open calls"
  std::string Past(const Member& member) const;
  void TellServing();

  const ClusterMembersOptions options_;
  const Clock& clock_;
  RandomSource& random_;
  absl::flat_hash_map<WorkerId, Member> members_;
  absl::flat_hash_map<const WorkerStream*, WorkerId> by_stream_;
  // The dispatcher's, known since the first message.
  const WorkerRegistry* registry_ = nullptr;
  bool serving_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_CLUSTER_MEMBERS_H_
