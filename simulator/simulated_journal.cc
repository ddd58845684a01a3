#include "simulator/simulated_journal.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace baton::simulator {
namespace {

constexpr int64_t kMinWriteNs = 10'000;
constexpr int64_t kMaxSlowWriteNs = 40 * kNsPerMs;
constexpr int kSlowWritesPercent = 15;

}  // namespace

void SimulatedJournal::Later(Task step) {
  const bool is_slow = sim_.KeptChance(kSlowWritesPercent);
  const int64_t most = is_slow ? std::max(kMaxSlowWriteNs, setup_.max_write_ns) : setup_.max_write_ns;
  process_.After(sim_.KeptBetween(kMinWriteNs, most), std::move(step));
}

void SimulatedJournal::Add(router::JournalTask task) {
  if (task.request != nullptr) ++new_jobs_;
  waiting_.push_back(std::move(task));
  if (std::exchange(busy_, true)) return;
  Later([this] { WriteWaiting(); });
}

// A process that dies between the two steps has written what it has told nobody.
void SimulatedJournal::WriteWaiting() {
  new_jobs_ = 0;
  const auto tasks = std::make_shared<std::vector<router::JournalTask>>(std::exchange(waiting_, {}));
  const router::JournalTaskWriter::Outcome outcome = writer_.Write(*tasks);
  Later([this, tasks, statuses = outcome.statuses] { Tell(*tasks, statuses); });
}

void SimulatedJournal::Tell(const std::vector<router::JournalTask>& tasks, const std::vector<absl::Status>& statuses) {
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].on_written) tasks[i].on_written(statuses[i]);
  }
  busy_ = !waiting_.empty();
  if (busy_) return Later([this] { WriteWaiting(); });
  if (writer_.has_unerased()) EraseAgainLater();
}

void SimulatedJournal::EraseAgainLater() {
  if (std::exchange(waits_to_erase_, true)) return;
  process_.After(router::kEraseAgainMs * kNsPerMs, [this] {
    waits_to_erase_ = false;
    if (!std::exchange(busy_, true)) WriteWaiting();
  });
}

}  // namespace baton::simulator
