// Writes the journal (journal_tasks.h) to its file (journal_store.h) on a thread of its own, so that the router's loop
// never waits for a disk. What has come while one transaction was written makes up the next one.
#ifndef BATON_ROUTER_JOURNAL_WRITER_H_
#define BATON_ROUTER_JOURNAL_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/limits.h"
#include "router/journal_records.h"
#include "router/journal_tasks.h"

namespace baton::router {

struct JournalCounts {
  // Transactions, and changes that are in the file; failed ones are not.
  int64_t commits = 0;
  int64_t written = 0;
  int64_t failed = 0;
  // Changes that wait.
  int64_t waiting = 0;
  int64_t write_ns = 0;
  int64_t size_bytes = 0;
};

// Thread-safe.
class JournalWriter final : public TaskJournal {
 public:
  // `max_new_jobs`: HasRoom is false while so many requests wait.
  explicit JournalWriter(std::unique_ptr<JournalRecords> records, size_t max_new_jobs = kMaxUnwrittenJobs);
  // Writes what waits.
  ~JournalWriter() override;

  bool HasRoom() const override ABSL_LOCKS_EXCLUDED(mutex_);
  JournalCounts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Add(JournalTask task) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Run();
  bool HasTaskOrStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); }
  // What waits, once something does or a record is to be erased again; false: the writer ends.
  bool AwaitTasks(std::vector<JournalTask>& tasks) ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteBatch(std::vector<JournalTask> tasks) ABSL_LOCKS_EXCLUDED(mutex_);

  // The thread's, once it runs.
  const std::unique_ptr<JournalRecords> records_;
  JournalTaskWriter task_writer_;
  const size_t max_new_jobs_;
  bool last_failed_ = false;
  mutable absl::Mutex mutex_;
  std::vector<JournalTask> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t new_jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  JournalCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_WRITER_H_
