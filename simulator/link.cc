#include "simulator/link.h"

#include "simulator/router_node.h"
#include "simulator/worker_node.h"

namespace baton::simulator {
namespace {

void Notice(const LinkPtr& link, Link::End Link::*end, const absl::Status& status) {
  Link::End& here = (*link).*end;
  here.process->Reach([link, end, status] {
    const bool was_over = std::exchange(((*link).*end).over, true);
    // A router that has given the worker up may hear of the stream's end once more, long after that.
    if (end == &Link::at_router) return link->router->OnLinkEnd(link, status);
    if (!was_over) link->worker->OnLinkEnd(link, status);
  });
}

}  // namespace

void SendOver(Simulation& sim, const LinkPtr& link, Link::End Link::*from, Link::End Link::*to, Task handle) {
  if (link->lost || ((*link).*from).over || ((*link).*to).deaf) return;
  ((*link).*to).to_here.Send(sim, [link, to, handle = std::move(handle)] {
    if (link->lost || ((*link).*to).deaf) return;
    ((*link).*to).process->Reach([link, to, handle] {
      if (!((*link).*to).over) handle();
    });
  });
}

void EndLink(Simulation& sim, const LinkPtr& link, Link::End Link::*noticed_by, int64_t max_notice_ms,
             const absl::Status& status) {
  ((*link).*noticed_by).to_here.SendLater(sim, sim.MsBetween(0, max_notice_ms), [link, noticed_by, status] {
    Notice(link, noticed_by, status);
  });
}

void BreakLink(Simulation& sim, const LinkPtr& link, Link::End Link::*noticed_by, int64_t max_notice_ms,
               const absl::Status& status) {
  const bool carries = !link->lost && !((*link).*noticed_by).deaf;
  if (carries && sim.Chance(50)) return EndLink(sim, link, noticed_by, max_notice_ms, status);
  sim.queue.After(sim.MsBetween(0, max_notice_ms), [link, noticed_by, status] { Notice(link, noticed_by, status); });
}

}  // namespace baton::simulator
