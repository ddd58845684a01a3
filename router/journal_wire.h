// What the journal keeps of a job, as the bytes in its file (baton/internal/v1/journal.proto).
#ifndef BATON_ROUTER_JOURNAL_WIRE_H_
#define BATON_ROUTER_JOURNAL_WIRE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "router/kept_job.h"

namespace baton::router {

std::string ToJournal(const KeptRequest& request);
std::string ToJournal(const KeptResult& result);

// DATA_LOSS for bytes that ToJournal did not make. `model` and sampling parameters are as they were, whatever is served
// now. The job has no deadline, and `arrived` is unset.
absl::StatusOr<KeptRequest> RequestFromJournal(const JobId& id, const std::string& bytes);
// `seed` is that of the job's request.
absl::StatusOr<std::shared_ptr<KeptResult>> ResultFromJournal(const JobId& id, uint64_t seed, const std::string& bytes);

}  // namespace baton::router

#endif  // BATON_ROUTER_JOURNAL_WIRE_H_
