// The file of the router's journal: an SQLite database, `journal.sqlite` in the folder of --state-dir. It outlives the
// death of the process at any moment, because what is committed has gone to the system. After a power cut the last
// commits may be missing, but the file is whole.
//
// The file holds prompts and outputs, so it has mode 0600, and so has the log of changes that SQLite keeps beside it.
// What is erased is overwritten in the file and leaves that log.
#ifndef BATON_ROUTER_JOURNAL_STORE_H_
#define BATON_ROUTER_JOURNAL_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/limits.h"
#include "router/journal_records.h"

struct sqlite3;

namespace baton::router {

struct JournalStoreOptions {
  std::string folder;
  // Changes that would make the file larger are refused.
  int64_t max_bytes = kMaxJournalBytes;
};

// Used by one thread at a time. Its errors have one line, which names the file and says what to do.
class JournalStore final : public JournalRecords {
 public:
  // Makes the folder (mode 0700) and the file where they are missing. FAILED_PRECONDITION: another router uses it, it
  // is no journal, or that of a newer Baton. DATA_LOSS: it is damaged. UNAVAILABLE: the system refuses.
  static absl::StatusOr<std::unique_ptr<JournalStore>> Open(const JournalStoreOptions& options);
  ~JournalStore() override;
  JournalStore(const JournalStore&) = delete;
  JournalStore& operator=(const JournalStore&) = delete;

  absl::StatusOr<std::vector<JournalRow>> TakeUp() override;
  absl::Status Apply(absl::Span<const JournalChange> changes) override;
  // That of the file, without its log.
  int64_t size_bytes() const override;
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
