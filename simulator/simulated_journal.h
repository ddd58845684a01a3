// A simulated router's journal: the real one, with virtual time in place of its thread and a JournalDisk in place of
// its file.
#ifndef BATON_SIMULATOR_SIMULATED_JOURNAL_H_
#define BATON_SIMULATOR_SIMULATED_JOURNAL_H_

#include <cstddef>
#include <vector>

#include "router/journal_tasks.h"
#include "simulator/cluster_setup.h"
#include "simulator/journal_disk.h"
#include "simulator/process.h"
#include "simulator/simulation.h"

namespace baton::simulator {

class SimulatedJournal final : public router::TaskJournal {
 public:
  // It lives in the process, and what the process has not written when it dies is lost.
  SimulatedJournal(Simulation& sim, Process& process, JournalDisk& disk, const KeptSetup& setup)
      : sim_(sim), process_(process), writer_(disk), setup_(setup) {}

  bool HasRoom() const override { return new_jobs_ < setup_.max_new_jobs; }

 private:
  void Add(router::JournalTask task) override;
  // A step of the thread, which most often takes little time.
  void Later(Task step);
  void WriteWaiting();
  void Tell(const std::vector<router::JournalTask>& tasks, const std::vector<absl::Status>& statuses);
  void EraseAgainLater();

  Simulation& sim_;
  Process& process_;
  router::JournalTaskWriter writer_;
  const KeptSetup setup_;
  std::vector<router::JournalTask> waiting_;
  size_t new_jobs_ = 0;
  // The thread writes, or tells what it has written.
  bool busy_ = false;
  bool waits_to_erase_ = false;
};

}  // namespace baton::simulator

#endif  // BATON_SIMULATOR_SIMULATED_JOURNAL_H_
