// The journal but for its thread and its file: what it is told becomes tasks, and tasks become changes of its records.
#ifndef BATON_ROUTER_JOURNAL_TASKS_H_
#define BATON_ROUTER_JOURNAL_TASKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "router/journal.h"
#include "router/journal_records.h"

namespace baton::router {

struct JournalTask {
  JournalChange change;
  // The request or the result whose bytes are made when it is written.
  std::shared_ptr<const KeptRequest> request;
  std::shared_ptr<const KeptResult> result;
  Journal::OnWritten on_written;
};

class TaskJournal : public Journal {
 public:
  void Write(std::shared_ptr<const KeptRequest> request, OnWritten on_written) final;
  void WriteFingerprint(const JobId& id, std::string fingerprint, OnWritten on_written) final;
  void WriteResult(const JobId& id, std::shared_ptr<const KeptResult> result, int64_t ended_unix_ms) final;
  void Erase(const JobId& id) final;

 private:
  // Tasks are written in the order of these calls.
  virtual void Add(JournalTask task) = 0;
};

// A record that could not be erased is tried again with all that is written later, and this often where nothing is.
inline constexpr int64_t kEraseAgainMs = 1'000;

// Used by one thread at a time.
class JournalTaskWriter {
 public:
  struct Outcome {
    // In the order of the tasks.
    std::vector<absl::Status> statuses;
    // Transactions that succeeded.
    int64_t commits = 0;
  };

  // The records outlive it.
  explicit JournalTaskWriter(JournalRecords& records) : records_(records) {}

  // One transaction. Where it fails, each task is written by itself, so that one that does not fit costs no other. The
  // owner tells the tasks' on_written.
  Outcome Write(std::vector<JournalTask>& tasks);
  // Write wants to be called within kEraseAgainMs, also without a task.
  bool has_unerased() const { return !unerased_.empty(); }

 private:
  void EraseAgain();

  JournalRecords& records_;
  // What a job leaves must go in the end, however long the disk is full: at most kMaxUnerasedRecords.
  std::vector<JobId> unerased_;
};

// The jobs of the records, of which those that cannot be read are erased and named in the log.
absl::StatusOr<std::vector<JournaledJob>> TakeUpJobs(JournalRecords& records);

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_TASKS_H_
