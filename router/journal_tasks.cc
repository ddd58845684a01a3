#include "router/journal_tasks.h"

#include <utility>

#include "common/limits.h"
#include "common/log.h"
#include "common/status.h"
#include "router/journal_wire.h"

namespace baton::router {

void TaskJournal::Write(std::shared_ptr<const KeptRequest> request, OnWritten on_written) {
  const JobId id = request->job->id;
  Add({.change = {.kind = JournalChange::Kind::kRequest, .id = id},
       .request = std::move(request),
       .on_written = std::move(on_written)});
}

void TaskJournal::WriteFingerprint(const JobId& id, std::string fingerprint, OnWritten on_written) {
  Add({.change = {.kind = JournalChange::Kind::kFingerprint, .id = id, .bytes = std::move(fingerprint)},
       .on_written = std::move(on_written)});
}

void TaskJournal::WriteResult(const JobId& id, std::shared_ptr<const KeptResult> result, int64_t ended_unix_ms) {
  Add({.change = {.kind = JournalChange::Kind::kResult, .id = id, .unix_ms = ended_unix_ms},
       .result = std::move(result)});
}

void TaskJournal::Erase(const JobId& id) { Add({.change = {.kind = JournalChange::Kind::kErase, .id = id}}); }

JournalTaskWriter::Outcome JournalTaskWriter::Write(std::vector<JournalTask>& tasks) {
  EraseAgain();
  Outcome outcome;
  if (tasks.empty()) return outcome;
  std::vector<JournalChange> changes;
  changes.reserve(tasks.size());
  for (JournalTask& task : tasks) {
    if (task.request != nullptr) task.change.bytes = ToJournal(*task.request);
    if (task.result != nullptr) task.change.bytes = ToJournal(*task.result);
    changes.push_back(std::move(task.change));
  }
  const absl::Status all = records_.Apply(changes);
  if (all.ok()) outcome.commits = 1;
  for (size_t i = 0; i < changes.size(); ++i) {
    const absl::Status status = all.ok() || changes.size() == 1 ? all : records_.Apply({changes[i]});
    if (status.ok() && !all.ok()) ++outcome.commits;
    const bool is_left = !status.ok() && changes[i].kind == JournalChange::Kind::kErase;
    if (is_left && unerased_.size() < kMaxUnerasedRecords) unerased_.push_back(changes[i].id);
    outcome.statuses.push_back(status);
  }
  return outcome;
}

void JournalTaskWriter::EraseAgain() {
  if (unerased_.empty()) return;
  std::vector<JournalChange> changes;
  changes.reserve(unerased_.size());
  for (const JobId& id : unerased_) changes.push_back({.kind = JournalChange::Kind::kErase, .id = id});
  if (records_.Apply(changes).ok()) unerased_.clear();
}

absl::StatusOr<std::vector<JournaledJob>> TakeUpJobs(JournalRecords& records) {
  BATON_ASSIGN_OR_RETURN(const std::vector<JournalRow> rows, records.TakeUp());
  std::vector<JournaledJob> jobs;
  for (const JournalRow& row : rows) {
    JournaledJob job{
        .id = row.id, .runs = row.runs, .fingerprint = row.fingerprint, .ended_unix_ms = row.ended_unix_ms};
    absl::StatusOr<KeptRequest> request = RequestFromJournal(row.id, row.request);
    absl::Status status = request.status();
    if (status.ok()) job.request = *std::move(request);
    if (status.ok() && !row.result.empty()) {
      auto result = ResultFromJournal(row.id, job.request.job->sampling.seed, row.result);
      status = result.status();
      if (status.ok()) job.result = *std::move(result);
    }
    if (status.ok()) {
      jobs.push_back(std::move(job));
      continue;
    }
    spdlog::warn("{}: it is erased", std::string(status.message()));
    BATON_RETURN_IF_ERROR(records.Apply({{.kind = JournalChange::Kind::kErase, .id = row.id}}));
  }
  return jobs;
}

}  // namespace baton::router
