// Names of jobs that are over, kept for a while so that a late message about one is recognised.
#ifndef BATON_KVTRANSFER_TOMBSTONES_H_
#define BATON_KVTRANSFER_TOMBSTONES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "common/clock.h"
#include "common/ids.h"

namespace baton::kvtransfer {

// Not thread-safe. Needs no timer: an expired name is not found, and is removed when room is needed.
class Tombstones {
 public:
  // At most `capacity` are kept; the oldest goes first.
  explicit Tombstones(size_t capacity) : capacity_(capacity) {}

  void Add(const JobKey& key, TimeNs expires, TimeNs now);
  bool Contains(const JobKey& key, TimeNs now) const;
  size_t size() const { return expires_.size(); }

 private:
  const size_t capacity_;
  absl::flat_hash_map<JobKey, TimeNs> expires_;
  // The keys of `expires_`, oldest first.
  std::deque<JobKey> order_;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_TOMBSTONES_H_
