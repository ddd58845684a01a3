#include "kvtransfer/tombstones.h"

namespace baton::kvtransfer {

void Tombstones::Add(const JobKey& key, TimeNs expires, TimeNs now) {
  const auto [it, inserted] = expires_.insert_or_assign(key, expires);
  if (inserted) order_.push_back(key);
  while (!order_.empty() && (order_.size() > capacity_ || expires_.at(order_.front()) <= now)) {
    expires_.erase(order_.front());
    order_.pop_front();
  }
}

bool Tombstones::Contains(const JobKey& key, TimeNs now) const {
  const auto it = expires_.find(key);
  return it != expires_.end() && now < it->second;
}

}  // namespace baton::kvtransfer
