// Which of a worker's routers each attempt came from. That is known until the blocks of the attempt are given back, so
// that no router takes those of another one's call for lost.
//
//   an attempt | event                                     | next    | result
//   -----------+-------------------------------------------+---------+---------------------------------------------------
//   unknown    | Begin                                     | open    | OK
//   open       | Begin                                     | open    | ALREADY_EXISTS
//   open       | End                                       | ended   | -
//   ended      | Begin, by the same router                 | open    | OK
//   ended      | Begin, by another router                  | ended   | ALREADY_EXISTS
//   ended      | KeepOnly, which names it                  | ended   | -
//   ended      | KeepOnly, which does not                  | unknown | -
#ifndef BATON_WORKER_ATTEMPT_OWNERS_H_
#define BATON_WORKER_ATTEMPT_OWNERS_H_

#include <cstddef>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/block_report.h"
#include "common/ids.h"

namespace baton::worker {

// Used by one thread. Routers are numbered from 0.
class AttemptOwners {
 public:
  absl::Status Begin(const JobKey& key, size_t router);
  // Ignores an unknown attempt.
  void End(const JobKey& key);
  // These attempts hold blocks. All others that have ended are forgotten.
  void KeepOnly(const absl::flat_hash_set<JobKey>& holders);

  // Whose the attempt is or was; nullopt when it is not known any more.
  std::optional<size_t> RouterOf(const JobKey& key) const;
  // How many attempts are open, or have ended and are not forgotten.
  size_t size() const { return owners_.size(); }

 private:
  struct Owner {
    size_t router = 0;
    bool open = false;
  };

  absl::flat_hash_map<JobKey, Owner> owners_;
};

// The attempts that hold blocks.
absl::flat_hash_set<JobKey> HoldersOf(const BlockReport& report);

// What the router is told of the report: its own holders, and of those of others only how many blocks they have.
// `member_of` is the router whose the attempt is and which is a member now; nullopt: none is. Such blocks are told to
// all, so that a leak is found whoever is gone.
BlockReport PartOf(const BlockReport& report, size_t router,
                   absl::FunctionRef<std::optional<size_t>(const JobKey&)> member_of);

}  // namespace baton::worker

#endif  // BATON_WORKER_ATTEMPT_OWNERS_H_
