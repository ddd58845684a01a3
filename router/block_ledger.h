// Whether the router knows what every worker holds its KV blocks for. A worker reports its holders every
// kBlockReportMs, and at once when it has none any more; the ledger compares each with the router's open calls. A call
// is open until its worker has ended it, so a report that names an attempt without an open call is about blocks that
// the worker kept behind the end of its call.
//
//   a holder in a worker's report              | reports in a row | verdict   | next
//   -------------------------------------------+------------------+-----------+----------------------------------------
//   a call of its attempt is open there        | any              | kCalled   | the count is 0 again
//   kForReader, and the call of the attempt's  | any              | kRead     | the count is 0 again: the reader renews
//   reader is open at any worker               |                  |           | its lease as long as it pulls
//   neither                                    | < kOrphanReports | kEnding   | counted: the reader's lease and grace,
//                                              |                  |           | or a read in flight, may hold the blocks
//   neither                                    | kOrphanReports   | kOrphan   | counted; news in the first such report
//                                              | or more          |           |
//   kUnowned, whatever calls are open          | any              | kOrphan   | news in the first such report
//   not in the report any more                 |                  |           | forgotten
//
//   blocks of the pool                         |                              | what it means
//   -------------------------------------------+------------------------------+--------------------------------------
//   free + cached + those of other routers +   |                              | the books balance
//   the holders' own = total                   |                              |
//   another sum                                |                              | unaccounted: lost, or counted twice;
//                                              |                              | news when the report before balanced
//
//   a membership ends (Forget)                 |                              | all that it held is forgotten: a
//                                              |                              | worker that joins again begins anew
//
// Reports are counted and not time, because a worker makes one only between two rounds of its engine's loop: a pause of
// either process, or a long step, lengthens one interval and is not taken for a leak. kOrphanReports of them in
// a row span at least kOrphanAfterMs of the worker's time, as one that comes early names no holder, and no rule of the
// hand-off keeps blocks for so long: a reader's lease of at most 30 s and its grace of 250 ms; or the 15 s in which a
// worker that the network cuts off notices that its calls are over, and then the 10 s after which a read that stalls
// fails.
//
// A worker that has several routers tells each of its own calls' holders alone, because nobody else can judge them. It
// tells every router of blocks whose router has left, so that these are found if they are lost.
//
// A block that several holders share counts for each as `blocks`, and as `own_blocks` for the first alone.
#ifndef BATON_ROUTER_BLOCK_LEDGER_H_
#define BATON_ROUTER_BLOCK_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/block_report.h"
#include "common/clock.h"
#include "common/limits.h"
#include "router/worker_registry.h"

namespace baton::router {

inline constexpr int32_t kOrphanReports = 8;
inline constexpr int64_t kOrphanAfterMs = (kOrphanReports - 1) * kBlockReportMs;

// Where the calls of an attempt are open.
struct AttemptCalls {
  std::optional<WorkerId> prefill;
  std::optional<WorkerId> decode;
};

enum class HolderVerdict : uint8_t { kCalled, kRead, kEnding, kOrphan };

struct LedgerEntry {
  BlockHolder holder;
  HolderVerdict verdict = HolderVerdict::kCalled;
  // Reports in a row, this one included, that show it without a call.
  int32_t reports_without_call = 0;
};

// The last report of a worker, judged.
struct WorkerBlocks {
  TimeNs reported_at = 0;
  int32_t free_blocks = 0;
  int32_t cached_blocks = 0;
  // Blocks of other routers' calls, which those routers judge.
  int32_t other_routers_blocks = 0;
  std::vector<LedgerEntry> entries;
  // Blocks that are neither free nor cached nor another router's nor a holder's; negative: the worker counts more than
  // it has.
  int64_t unaccounted_blocks = 0;
  // What orphans refer to, and what is not accounted for, whatever its sign. 0 unless there is a bug.
  int64_t orphaned_blocks = 0;

  // The worker holds something that it should not, perhaps without a block of its own.
  bool has_orphans() const;
};

// What a report shows for the first time.
struct LedgerNews {
  std::vector<BlockHolder> orphans;
  int64_t unaccounted_blocks = 0;

  bool empty() const { return orphans.empty() && unaccounted_blocks == 0; }
};

// Used by one thread.
class BlockLedger {
 public:
  using FindCalls = absl::FunctionRef<AttemptCalls(const JobKey&)>;

  // `clock` outlives the ledger.
  explicit BlockLedger(const Clock& clock) : clock_(clock) {}

  // A member has reported. `total_blocks` are those of its pool.
  LedgerNews OnReport(const WorkerId& worker, int32_t total_blocks, const BlockReport& report, FindCalls find_calls);
  void Forget(const WorkerId& worker) { workers_.erase(worker); }

  // Null for a worker that has not reported. Valid until the next change.
  const WorkerBlocks* Find(const WorkerId& worker) const;

 private:
  const Clock& clock_;
  std::map<WorkerId, WorkerBlocks> workers_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_BLOCK_LEDGER_H_
