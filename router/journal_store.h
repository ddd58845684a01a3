// The file of the router's journal: an SQLite database, `journal.sqlite` in the folder of --state-dir. It outlives the
// death of the process at any moment, because what is committed has gone to the system. After a power cut the last
// commits may be missing, but the file is whole.
//
// The file holds prompts and outputs, so it has mode 0600, and so has the log of changes that SQLite keeps beside it.
// What is erased is overwritten in the file and leaves that log.
//
//   a job in the file                | has
//   ---------------------------------+-----------------------------------------
//   runs, nobody has seen an output  | request
//   runs                             | request, fingerprint
//   has ended well                   | request, fingerprint, result, its time
#ifndef BATON_ROUTER_JOURNAL_STORE_H_
#define BATON_ROUTER_JOURNAL_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/limits.h"

struct sqlite3;

namespace baton::router {

struct JournalChange {
  enum class Kind : uint8_t {
    kRequest,      // a new job
    kFingerprint,  // this and the next two do nothing for a job that is not here
    kResult,
    kErase,
  };
  Kind kind = Kind::kRequest;
  JobId id;
  // The request, the fingerprint or the result.
  std::string bytes;
  // When the job of a result ended, by the wall clock.
  int64_t unix_ms = 0;
};

struct JournalRow {
  JobId id;
  // How often the job was taken up after a restart, this time included.
  uint32_t runs = 0;
  std::string request;
  std::string fingerprint;
  // Empty while the job runs.
  std::string result;
  int64_t ended_unix_ms = 0;
};

struct JournalStoreOptions {
  std::string folder;
  // Changes that would make the file larger are refused.
  int64_t max_bytes = kMaxJournalBytes;
};

// Used by one thread at a time. Its errors have one line, which names the file and says what to do.
class JournalStore {
 public:
  // Makes the folder (mode 0700) and the file where they are missing. FAILED_PRECONDITION: another router uses it, it
  // is no journal, or that of a newer Baton. DATA_LOSS: it is damaged. UNAVAILABLE: the system refuses.
  static absl::StatusOr<std::unique_ptr<JournalStore>> Open(const JournalStoreOptions& options);
  ~JournalStore();
  JournalStore(const JournalStore&) = delete;
  JournalStore& operator=(const JournalStore&) = delete;

  // All jobs, oldest first. Counts a run of each that has no result.
  absl::StatusOr<std::vector<JournalRow>> TakeUp();
  // All of the changes or, with an error, none. RESOURCE_EXHAUSTED: the disk or the file is full.
  absl::Status Apply(absl::Span<const JournalChange> changes);
  // The size of the file, without its log.
  int64_t size_bytes() const;
  const std::string& path() const { return path_; }

 private:
  JournalStore(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

  absl::Status Configure(int64_t max_bytes);
  absl::Status CheckContent();
  absl::Status Write(const JournalChange& change);
  absl::Status Run(const char* sql);
  // A statement whose first row has one number.
  absl::StatusOr<int64_t> ReadNumber(const char* sql) const;
  // What SQLite says of its last error. `doing`: what could not be done.
  absl::Status Error(const char* doing) const;

  const std::string path_;
  sqlite3* const db_;
  // Something was erased that SQLite's log may still have.
  bool log_has_erased_ = false;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_STORE_H_
