#include "router/journal_writer.h"

#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "router/journal_wire.h"

namespace baton::router {

JournalWriter::JournalWriter(std::unique_ptr<JournalStore> store, size_t max_new_jobs)
    : store_(std::move(store)), max_new_jobs_(max_new_jobs) {
  counts_.size_bytes = store_->size_bytes();
  thread_ = std::thread([this] { Run(); });
}

JournalWriter::~JournalWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

bool JournalWriter::HasRoom() const {
  absl::MutexLock lock(&mutex_);
  return new_jobs_ < max_new_jobs_;
}

void JournalWriter::Write(std::shared_ptr<const KeptRequest> request, OnWritten on_written) {
  const JobId id = request->job->id;
  Add({.change = {.kind = JournalChange::Kind::kRequest, .id = id},
       .request = std::move(request),
       .on_written = std::move(on_written)});
}

void JournalWriter::WriteFingerprint(const JobId& id, std::string fingerprint, OnWritten on_written) {
  Add({.change = {.kind = JournalChange::Kind::kFingerprint, .id = id, .bytes = std::move(fingerprint)},
       .on_written = std::move(on_written)});
}

void JournalWriter::WriteResult(const JobId& id, std::shared_ptr<const KeptResult> result, int64_t ended_unix_ms) {
  Add({.change = {.kind = JournalChange::Kind::kResult, .id = id, .unix_ms = ended_unix_ms},
       .result = std::move(result)});
}

void JournalWriter::Erase(const JobId& id) { Add({.change = {.kind = JournalChange::Kind::kErase, .id = id}}); }

void JournalWriter::Add(Task task) {
  absl::MutexLock lock(&mutex_);
  if (task.request != nullptr) ++new_jobs_;
  waiting_.push_back(std::move(task));
  ++counts_.waiting;
}

JournalCounts JournalWriter::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

void JournalWriter::Run() {
  while (true) {
    std::vector<Task> tasks;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &JournalWriter::HasTaskOrStopping));
      if (waiting_.empty()) return;
      tasks = std::exchange(waiting_, {});
      new_jobs_ = 0;
    }
    for (Task& task : tasks) {
      if (task.request != nullptr) task.change.bytes = ToJournal(*task.request);
      if (task.result != nullptr) task.change.bytes = ToJournal(*task.result);
    }
    WriteBatch(std::move(tasks));
  }
}

void JournalWriter::WriteBatch(std::vector<Task> tasks) {
  const TimeNs begin = MonotonicClock().Now();
  std::vector<JournalChange> changes;
  changes.reserve(tasks.size());
  for (Task& task : tasks) changes.push_back(std::move(task.change));
  absl::Status status = store_->Apply(changes);
  if (status.ok() || tasks.size() == 1) {
    Tell(tasks, status);
  } else {
    for (size_t i = 0; i < tasks.size(); ++i) {
      std::vector<Task> one;
      one.push_back(std::move(tasks[i]));
      status = store_->Apply({changes[i]});
      Tell(one, status);
    }
  }
  if (!status.ok() && !last_failed_) {
    spdlog::error("requests that ask to be kept are refused: {}", std::string(status.message()));
  }
  last_failed_ = !status.ok();
  absl::MutexLock lock(&mutex_);
  counts_.write_ns += MonotonicClock().Now() - begin;
  counts_.size_bytes = store_->size_bytes();
}

void JournalWriter::Tell(const std::vector<Task>& tasks, const absl::Status& status) {
  const auto count = static_cast<int64_t>(tasks.size());
  {
    absl::MutexLock lock(&mutex_);
    counts_.waiting -= count;
    (status.ok() ? counts_.written : counts_.failed) += count;
    if (status.ok()) ++counts_.commits;
  }
  for (const Task& task : tasks) {
    if (task.on_written) task.on_written(status);
  }
}

absl::StatusOr<std::vector<JournaledJob>> TakeUpJobs(JournalStore& store) {
  BATON_ASSIGN_OR_RETURN(const std::vector<JournalRow> rows, store.TakeUp());
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
    BATON_RETURN_IF_ERROR(store.Apply({{.kind = JournalChange::Kind::kErase, .id = row.id}}));
  }
  return jobs;
}

}  // namespace baton::router
