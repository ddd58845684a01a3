// A worker's membership: joins the router over one stream, sends its load as heartbeats, passes what the router says to
// the loop, and joins again when the stream ends.
//
//   state       | event                           | next        | actions
//   ------------+---------------------------------+-------------+------------------------------------------------------
//   apart       | the engine progresses, and the  | joining     | the stream's hello, which resumes the last membership
//               | back-off is over                |             |
//   joining     | accepted                        | member      | RouterCalls::OnJoined; the back-off starts anew
//   joining     | the stream ends, or the router  | apart       | JoinLog::OnNotJoined; the next back-off is twice as
//               | speaks another version          |             | long
//   joining     | no answer for the link's        | apart       | likewise; the next patience is twice as long
//               | patience                        |             |
//   member      | starts, cancels, drain_accepted | member      | RouterCalls::OnMessage
//   member      | an operator's order to drain    | member      | on_drain_ordered
//   member      | the heartbeat's interval is over| member      | a heartbeat
//   member      | the stream ends                 | apart       | RouterCalls::OnLost; joins again at once
//   member      | the process dies of a fault of  | member      | the fault; ends the stream, at whose end the process
//               | its own                         |             | may die
//   any         | Stop                            | gone        | ends the stream after what is written already
//   apart       | Drain                           | gone        | (a worker that drains does not join)
//   apart       | SetWanted(false)                | unwanted    | -
//   unwanted    | SetWanted(true)                 | apart       | (it joins within a second)
//   member      | SetWanted(false)                | member      | (the membership ends as any other)
#ifndef BATON_WORKER_ROUTER_LINK_H_
#define BATON_WORKER_ROUTER_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/clock.h"
#include "common/rpc/credentials.h"
#include "worker/join_log.h"
#include "worker/router_calls.h"
#include "worker/router_stream.h"

namespace baton::worker {

// States the version of the protocol and the features that this program speaks.
void StateProtocol(internal::v1::Hello& hello);

// Owns a thread from Start until Stop.
class RouterLink {
 public:
  struct Options {
    std::string router_target;
    // Null: plain text. They outlive the link.
    rpc::Credentials* credentials = nullptr;
    // Protocol version, features and the membership to resume are the link's to fill in.
    internal::v1::Hello hello;
    // Any thread. All but `draining`, which the link knows.
    std::function<internal::v1::Load()> load;
    // Asked on the link's thread: what the process is dying of. The router is told, and then the process may die.
    std::function<std::optional<internal::v1::Fault>()> fault = [] { return std::nullopt; };
    std::function<void()> on_fault_told = [] {};
    // Told on the link's thread: the process is to end as after SIGTERM. It may be told again.
    std::function<void()> on_drain_ordered = [] {};
    // Runs a task on the loop that owns `calls`, in the order of these calls; waits for room.
    std::function<void(std::function<void()>)> post;
    // Told on the link's thread whether the worker can serve: it is a member and its engine progresses.
    std::function<void(bool)> on_serving = [](bool) {};
  };

  // `calls` outlives the link and the tasks that it posts.
  RouterLink(Options options, RouterCalls& calls)
      : options_(std::move(options)), calls_(calls), join_log_(options_.router_target, MonotonicClock()) {}
  ~RouterLink() { Stop(); }

  void Start();
  // Later heartbeats say that the worker takes no new work. What the router answers goes to RouterCalls.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  // Any thread. Whether the link asks to join while it is apart; at first it does.
  void SetWanted(bool wanted) ABSL_LOCKS_EXCLUDED(mutex_);
  // Any thread: the router has accepted the worker, and the stream has not ended.
  bool is_member() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How often it was accepted. Any thread.
  int64_t joins() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The link's thread leaves the router soon: then several links can leave at once. Stop waits for it.
  void AskToStop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Ended {
    bool was_accepted = false;
    // The worker itself has left.
    bool left = false;
    // FAILED_PRECONDITION also when the router speaks another version of the protocol.
    absl::Status status;
  };
  // What the link's thread keeps of the stream under way.
  struct Membership {
    std::shared_ptr<GrpcRouterStream> stream;
    bool accepted = false;
    bool leaving = false;
    bool told_fault = false;
    absl::Status refusal;
    TimeNs next_heartbeat = 0;
    int64_t heartbeat_interval_ms = 0;
    // The stream is cancelled when the router has not accepted it, or when the worker leaves not ended it, by then.
    TimeNs give_up_at = kNever;
  };

  void Run();
  // One membership: until its stream has ended.
  Ended JoinOnce(internal::v1::ClusterService::Stub& stub, grpc::CompletionQueue& queue);
  void OnMessage(Membership& member);
  void OnAccepted(Membership& member, const internal::v1::Accepted& accepted);
  // What is due by the clock.
  void Tick(Membership& member);
  // Says what the process is dying of, once, and leaves.
  void TellFault(Membership& member);
  // The router has not answered the hello in time.
  void LosePatience(Membership& member);
  void SetMember(bool is_member) ABSL_LOCKS_EXCLUDED(mutex_);
  void TellServing(bool serving);
  // Whether the engine progresses and the process does not die: else the worker takes no jobs.
  bool MayJoin();

  static constexpr int64_t kFirstPatienceMs = 1'000;

  const Options options_;
  RouterCalls& calls_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_member_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t joins_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
  // The link's thread's alone: how long the router has to answer a hello, the last membership, what on_serving was told
  // last.
  int64_t patience_ms_ = kFirstPatienceMs;
  JoinLog join_log_;
  std::string last_membership_;
  bool serving_ = false;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ROUTER_LINK_H_
