#include "router/journal_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/log.h"

namespace baton::router {

JournalWriter::JournalWriter(std::unique_ptr<JournalRecords> records, size_t max_new_jobs)
    : records_(std::move(records)), task_writer_(*records_), max_new_jobs_(max_new_jobs) {
  counts_.size_bytes = records_->size_bytes();
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

void JournalWriter::Add(JournalTask task) {
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
  for (std::vector<JournalTask> tasks; AwaitTasks(tasks); tasks.clear()) WriteBatch(std::move(tasks));
}

bool JournalWriter::AwaitTasks(std::vector<JournalTask>& tasks) {
  absl::MutexLock lock(&mutex_);
  const absl::Condition ready(this, &JournalWriter::HasTaskOrStopping);
  const absl::Duration most =
      task_writer_.has_unerased() ? absl::Milliseconds(kEraseAgainMs) : absl::InfiniteDuration();
  mutex_.AwaitWithTimeout(ready, most);
  if (stopping_ && waiting_.empty()) return false;
  tasks = std::exchange(waiting_, {});
  new_jobs_ = 0;
  return true;
}

void JournalWriter::WriteBatch(std::vector<JournalTask> tasks) {
  const TimeNs begin = MonotonicClock().Now();
  const JournalTaskWriter::Outcome outcome = task_writer_.Write(tasks);
  const auto failed = std::find_if(outcome.statuses.begin(), outcome.statuses.end(),
                                   [](const absl::Status& status) { return !status.ok(); });
  const bool some_failed = failed != outcome.statuses.end();
  if (some_failed && !last_failed_) {
    spdlog::error("requests that ask to be kept are refused: {}", std::string(failed->message()));
  }
  if (!tasks.empty()) last_failed_ = some_failed;
  {
    absl::MutexLock lock(&mutex_);
    for (const absl::Status& status : outcome.statuses) ++(status.ok() ? counts_.written : counts_.failed);
    counts_.waiting -= static_cast<int64_t>(tasks.size());
    counts_.commits += outcome.commits;
    counts_.write_ns += MonotonicClock().Now() - begin;
    counts_.size_bytes = records_->size_bytes();
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].on_written) tasks[i].on_written(outcome.statuses[i]);
  }
}

}  // namespace baton::router
