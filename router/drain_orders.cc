#include "router/drain_orders.h"

namespace baton::router {

bool DrainOrders::Begin(const Incarnation& worker) {
  const DrainRecord* record = Find(worker);
  if (record != nullptr && record->state == DrainState::kDraining) return false;
  std::erase(ended_, worker);
  records_[worker] = {};
  return true;
}

void DrainOrders::OnGone(const Incarnation& worker, bool left, const std::string& why) {
  const auto it = records_.find(worker);
  if (it == records_.end() || it->second.state != DrainState::kDraining) return;
  it->second = {.state = left ? DrainState::kLeft : DrainState::kLost, .why = left ? "" : why};
  ended_.push_back(worker);
  if (ended_.size() <= kMaxEnded) return;
  records_.erase(ended_.front());
  ended_.pop_front();
}

const DrainRecord* DrainOrders::Find(const Incarnation& worker) const {
  const auto it = records_.find(worker);
  return it == records_.end() ? nullptr : &it->second;
}

}  // namespace baton::router
