// The disk of a router's journal: what is written there outlives the router. It may have no room for a while.
#ifndef BATON_SIMULATOR_JOURNAL_DISK_H_
#define BATON_SIMULATOR_JOURNAL_DISK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "router/journal_records.h"
#include "simulator/simulation.h"

namespace baton::simulator {

class JournalDisk final : public router::JournalRecords {
 public:
  explicit JournalDisk(const Simulation& sim) : sim_(sim) {}

  // Changes with so many bytes or more find no room until then. 0: no change does, nor does a router that starts while
  // the journal has jobs which have not ended.
  void Fill(TimeNs until, size_t least_bytes);
  // Whether a change was refused at `since` or later.
  bool RefusedSince(TimeNs since) const { return last_refused_ >= since; }
  size_t jobs() const { return rows_.size(); }
  bool HasResult(const JobId& id) const;

  // router::JournalRecords
  absl::StatusOr<std::vector<router::JournalRow>> TakeUp() override;
  absl::Status Apply(absl::Span<const router::JournalChange> changes) override;
  int64_t size_bytes() const override { return 0; }

 private:
  bool HasRoom(size_t bytes) const { return sim_.queue.Now() >= full_until_ || bytes < least_bytes_; }
  absl::Status Refuse();
  void ApplyOne(const router::JournalChange& change);

  const Simulation& sim_;
  // Oldest first.
  std::vector<router::JournalRow> rows_;
  TimeNs full_until_ = 0;
  size_t least_bytes_ = 0;
  TimeNs last_refused_ = 0;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_JOURNAL_DISK_H_
