// Writes the journal (journal_store.h) on a thread of its own, so that the router's loop never waits for a disk. What
// has come while one transaction was written makes up the next one.
#ifndef BATON_ROUTER_JOURNAL_WRITER_H_
#define BATON_ROUTER_JOURNAL_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/limits.h"
#include "router/journal.h"
#include "router/journal_store.h"

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
class JournalWriter final : public Journal {
 public:
  // `max_new_jobs`: HasRoom is false while so many requests wait.
  explicit JournalWriter(std::unique_ptr<JournalStore> store, size_t max_new_jobs = kMaxUnwrittenJobs);
  // Writes what waits.
  ~JournalWriter() override;

  bool HasRoom() const override ABSL_LOCKS_EXCLUDED(mutex_);
  void Write(std::shared_ptr<const KeptRequest> request, OnWritten on_written) override;
  void WriteFingerprint(const JobId& id, std::string fingerprint, OnWritten on_written) override;
  void WriteResult(const JobId& id, std::shared_ptr<const KeptResult> result, int64_t ended_unix_ms) override;
  void Erase(const JobId& id) override;

  JournalCounts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    JournalChange change;
    // The request or the result whose bytes the thread makes.
    std::shared_ptr<const KeptRequest> request;
    std::shared_ptr<const KeptResult> result;
    OnWritten on_written;
  };

  void Add(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run();
  bool HasTaskOrStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); }
  // One transaction. Where it fails, each change is written by itself, so that one that does not fit costs no other.
  void WriteBatch(std::vector<Task> tasks) ABSL_LOCKS_EXCLUDED(mutex_);
  void Tell(const std::vector<Task>& tasks, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // The thread's, once it runs.
  const std::unique_ptr<JournalStore> store_;
  const size_t max_new_jobs_;
  bool last_failed_ = false;
  mutable absl::Mutex mutex_;
  std::vector<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t new_jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  JournalCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// The jobs of the store, of which those that cannot be read are erased and named in the log.
absl::StatusOr<std::vector<JournaledJob>> TakeUpJobs(JournalStore& store);

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_WRITER_H_
