// The simulated clients whose requests outlive their calls (router/live_jobs.h). They leave, or their router dies, and
// they come back by the job's id or by their key, at once, late, twice at a time or never.
#ifndef BATON_SIMULATOR_KEPT_CLIENTS_H_
#define BATON_SIMULATOR_KEPT_CLIENTS_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/generation.h"
#include "router/kept_job.h"
#include "simulator/cluster_setup.h"
#include "simulator/kept_oracle.h"
#include "simulator/router_node.h"
#include "simulator/simulation.h"
#include "simulator/worker_node.h"

namespace baton::simulator {

class KeptClients {
 public:
  KeptClients(Simulation& sim, RouterDirectory& routers) : sim_(sim), routers_(routers) {}

  // Before anything else.
  void Use(const KeptSetup& setup) { setup_ = setup; }
  // Whether the client of a request that was drawn asks that its job be kept.
  bool Takes(const router::JobSpec& spec);
  // Such a request, and all that workers compute for it.
  void Add(const router::JobSpec& spec, const std::vector<int32_t>& computed, int home, TimeNs submitted);

  // What workers compute for a job, and whether a stop string ends its output.
  struct Work {
    std::vector<int32_t> computed;
    bool is_cut = false;
  };
  // A router has begun the job, or has taken it up again.
  Work OnSubmitted(const router::JobSpec& spec, const RouterNode& router);
  // The dispatcher has ended the job. True: at the word of what keeps it, rightly so.
  bool OnJobEnd(const JobId& id, const absl::Status& status);
  void OnRouterGone(const RouterNode* router);

  // All clients have what they want, or have given up.
  bool done() const { return open_ == 0; }
  // The last time at which one does something of its own accord.
  TimeNs last_event() const { return last_event_; }
  std::string Open() const;

 private:
  class Call;
  using CallPtr = std::shared_ptr<Call>;

  struct Request {
    // With the id of its first call.
    router::KeptRequest kept;
    std::vector<int32_t> computed;
    KeptOracle oracle;
    int home = 0;
    // The job that the client has heard of.
    std::optional<JobId> job;
    // What it has of the output.
    size_t tokens = 0;
    size_t text_bytes = 0;
    bool was_sent = false;
    int returns_left = 0;
    // Calls, and times at which it comes back.
    int open = 0;
  };
  // A job at the last router that had it.
  struct Job {
    Request* request = nullptr;
    const RouterNode* router = nullptr;
    bool runs = false;
    // It has failed, and the router that took it up again died before that was written. Its key may be another's.
    bool had_failed = false;
    TimeNs began = 0;
    absl::Status end;
    TimeNs ended = 0;
    // When the last call that followed it was over.
    TimeNs followed = 0;
  };

  void ComeAt(Request& request, TimeNs time);
  // The client comes, for the first time or again.
  void Come(Request& request);
  void Begin(Request& request, RouterNode& router);
  void Resume(Request& request, RouterNode& router);
  CallPtr MakeCall(Request& request, RouterNode& router, const Id128& id);
  void Leave(const CallPtr& call);
  // The client hears no more of the call.
  void Close(Call& call);
  void ComeBackAfterBreak(Request& request);
  void ComeBackAfterEnd(Request& request, bool well);
  // kept_checks.cc: what a call hears.
  void OnEvent(Call& call, const router::GenerationEvent& event);
  void On(Call& call, const router::GenerationAccepted& accepted);
  void On(Call& call, const router::GenerationDelta& delta);
  void On(Call& call, const router::GenerationFinished& finished);
  void On(Call& call, const router::GenerationFailed& failed);
  bool MayFail(const Call& call, const absl::Status& status);
  // Whether it is over, and at least some of its clients do not have its result.
  static bool HasFailed(const Job& job, const RouterNode& router);
  // Whether it is right that a router does not know the job.
  bool MayBeForgotten(const Call& call, const Job& job) const;
  void CheckKey(const Request& request, const RouterNode& router);
  void CheckUnfollowed(const JobId& id, const Job& job);
  bool RetentionMayBeOver(const Job& job, const RouterNode& router) const;
  void Wrong(const Request& request, const std::string& what);

  Simulation& sim_;
  RouterDirectory& routers_;
  KeptSetup setup_;
  std::deque<Request> requests_;
  // By the ids of the calls that may begin a job.
  std::map<Id128, Request*> owners_;
  std::map<JobId, Job> jobs_;
  // Those that a client listens to.
  std::map<Id128, CallPtr> calls_;
  int open_ = 0;
  TimeNs last_event_ = 0;
};

// The client's end of one call.
class KeptClients::Call final : public router::GenerationSink {
 public:
  Call(KeptClients& owner, Request& request, RouterNode& router, const Id128& id)
      : id(id), request(request), router(router), owner_(owner) {}

  bool Write(router::GenerationEvent event) override {
    owner_.OnEvent(*this, event);
    return true;
  }
  bool HasRoom(const router::GenerationDelta&) const override { return owner_.sim_.queue.Now() >= slow_until; }
  bool cancelled() const override { return is_left; }

  const Id128 id;
  Request& request;
  RouterNode& router;
  // The job that it resumes, or of which it has heard.
  std::optional<JobId> job;
  // The next token and the next byte of text.
  size_t next_index = 0;
  size_t text_at = 0;
  bool was_accepted = false;
  bool has_end = false;
  // The client has left it.
  bool is_left = false;
  // It does not read until then.
  TimeNs slow_until = 0;

 private:
  KeptClients& owner_;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_KEPT_CLIENTS_H_
