#include "gateway/vllm_aborts.h"

namespace baton::gateway {

std::shared_ptr<const AbortableRequest> VllmAborts::Add(const std::string& tenant, const std::string& name,
                                                        const JobId& id) {
  auto request = std::make_unique<AbortableRequest>();
  request->id = id;
  const absl::MutexLock lock(&state_->mutex);
  const auto at = state_->requests.emplace(Name(tenant, name), request.get());
  return {request.release(), [state = state_, at](AbortableRequest* gone) {
            {
              const absl::MutexLock lock(&state->mutex);
              state->requests.erase(at);
            }
            delete gone;
          }};
}

std::vector<JobId> VllmAborts::Abort(const std::string& tenant, const std::string& name) {
  std::vector<JobId> ids;
  const absl::MutexLock lock(&state_->mutex);
  const auto [begin, end] = state_->requests.equal_range(Name(tenant, name));
  for (auto it = begin; it != end; ++it) {
    it->second->is_aborted = true;
    ids.push_back(it->second->id);
  }
  return ids;
}

size_t VllmAborts::size() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->requests.size();
}

}  // namespace baton::gateway
