// The stream between a worker and one of its routers: an ordered lane each way, which carries starts, cancels, reports
// and loads, and which breaks as a whole. Each end learns of a break in its own time.
#ifndef BATON_SIMULATOR_LINK_H_
#define BATON_SIMULATOR_LINK_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/ids.h"
#include "simulator/process.h"

namespace baton::simulator {

class RouterNode;
class WorkerNode;

struct Link {
  // One end of the stream.
  struct End {
    Process* process = nullptr;
    Lane to_here;
    // This end has closed the stream, or was told of its end: it sends and hears no more.
    bool over = false;
    // The network carries nothing to this end any more, and has told nobody.
    bool deaf = false;
  };
  RouterNode* router = nullptr;
  WorkerNode* worker = nullptr;
  End at_router;
  End at_worker;
  // Likewise to neither end.
  bool lost = false;
  // Zero until the router has accepted the worker.
  MembershipId membership;
};
using LinkPtr = std::shared_ptr<Link>;

// Sends from one end to the other; `handle` runs in the other end's process.
void SendOver(Simulation& sim, const LinkPtr& link, Link::End Link::*from, Link::End Link::*to, Task handle);
// The other end hears of the stream's end within `max_notice_ms`, behind all that was sent.
void EndLink(Simulation& sim, const LinkPtr& link, Link::End Link::*noticed_by, int64_t max_notice_ms,
             const absl::Status& status);
// The other end hears no more of this one. It notices likewise, or what is on its way is lost.
void BreakLink(Simulation& sim, const LinkPtr& link, Link::End Link::*noticed_by, int64_t max_notice_ms,
               const absl::Status& status);

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_LINK_H_
