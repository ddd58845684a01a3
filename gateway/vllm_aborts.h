// Which requests of vLLM's engine service run, by the names that their clients gave them, so that another call can end
// them.
#ifndef BATON_GATEWAY_VLLM_ABORTS_H_
#define BATON_GATEWAY_VLLM_ABORTS_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"

namespace baton::gateway {

struct AbortableRequest {
  JobId id;
  std::atomic<bool> is_aborted{false};
};

// Thread-safe. A name is its tenant's, so nobody ends the requests of others.
class VllmAborts {
 public:
  // The request can be aborted until the pointer is given up, which may be after the end of VllmAborts. Several
  // requests may have the same name.
  std::shared_ptr<const AbortableRequest> Add(const std::string& tenant, const std::string& name, const JobId& id);
  // The requests of the name, which are aborted from now on.
  std::vector<JobId> Abort(const std::string& tenant, const std::string& name);
  size_t size() const;

 private:
  using Name = std::pair<std::string, std::string>;
  struct State {
    absl::Mutex mutex;
    std::multimap<Name, AbortableRequest*> requests ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_VLLM_ABORTS_H_
