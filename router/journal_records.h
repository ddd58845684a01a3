// The records of a journal, wherever they are kept. journal_store.h keeps them in a file.
//
//   a job in the records             | has
//   ---------------------------------+-----------------------------------------
//   runs, nobody has seen an output  | request
//   runs                             | request, fingerprint
//   has ended well                   | request, fingerprint, result, its time
#ifndef BATON_ROUTER_JOURNAL_RECORDS_H_
#define BATON_ROUTER_JOURNAL_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"

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

// Used by one thread at a time.
class JournalRecords {
 public:
  virtual ~JournalRecords() = default;
  // All jobs, oldest first. Counts a run of each that has no result.
  virtual absl::StatusOr<std::vector<JournalRow>> TakeUp() = 0;
  // All of the changes or, with an error, none. RESOURCE_EXHAUSTED: there is no room.
  virtual absl::Status Apply(absl::Span<const JournalChange> changes) = 0;
  virtual int64_t size_bytes() const = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_RECORDS_H_
