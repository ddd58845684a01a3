// Which bytes of this worker's region may be read over a network, and by whom. The owner of a TCP read serves nothing
// that was not granted. A reader that maps the memory is not held back by this: it belongs to the same trust domain.
#ifndef BATON_KVTRANSFER_READ_GRANTS_H_
#define BATON_KVTRANSFER_READ_GRANTS_H_

#include <atomic>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/ids.h"

namespace baton::kvtransfer {

// Bytes [offset, offset + bytes) of the region.
struct RegionRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Thread-safe: the engine's loop grants and withdraws, the transfer thread serves. A fetch is named by the secret of
// its attempt; the zero id names none.
class ReadGrants {
 public:
  // From here on, whoever names `fetch` may read these bytes too.
  void Grant(const Id128& fetch, absl::Span<const RegionRange> ranges) ABSL_LOCKS_EXCLUDED(mutex_);
  // No send of these bytes begins any more. Returns true when none is under way either, so that the bytes may change.
  bool Withdraw(const Id128& fetch) ABSL_LOCKS_EXCLUDED(mutex_);

  // The server's part. Returns false when the bytes were not granted to `fetch`; else EndSend follows, once nothing
  // reads them any more.
  bool BeginSend(const Id128& fetch, const RegionRange& range) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndSend(const Id128& fetch) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts a request that was refused. The first one is logged.
  void CountRefusal();
  int64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

 private:
  struct Fetch {
    // End of each range by its begin. Ranges neither overlap nor touch.
    std::map<uint64_t, uint64_t> ranges;
    int32_t sends = 0;
  };

  absl::Mutex mutex_;
  // Fetches with ranges or with sends under way.
  absl::flat_hash_map<Id128, Fetch> fetches_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> refusals_ = 0;
};

}  // namespace baton::kvtransfer

#endif  // BATON_KVTRANSFER_READ_GRANTS_H_
