#include "router/journal_writer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/journal_store.h"
#include "router/testing/scratch_folder.h"

namespace baton::router {
namespace {

JobId WriterJob(uint64_t number) { return {.high = 1, .low = number}; }

std::shared_ptr<const KeptRequest> RequestOf(uint64_t number, size_t prompt_tokens = 3) {
  auto job = std::make_shared<JobSpec>();
  job->id = WriterJob(number);
  job->prompt.assign(prompt_tokens, 1'000'000);
  auto request = std::make_shared<KeptRequest>();
  request->job = std::move(job);
  request->model = "m";
  return request;
}

class JournalWriterTest : public ::testing::Test {
 protected:
  std::unique_ptr<JournalStore> Open(int64_t max_bytes = 1 << 20) {
    auto store = JournalStore::Open({.folder = folder_.path(), .max_bytes = max_bytes});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::vector<JournaledJob> TakeUp() {
    const auto store = Open();
    auto jobs = TakeUpJobs(*store);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return *std::move(jobs);
  }

  ScratchFolder folder_;
};

TEST_F(JournalWriterTest, WhatIsToldToBeWrittenIsThereInItsOrder) {
  {
    JournalWriter writer(Open());
    absl::Notification written;
    writer.Write(RequestOf(1), [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    writer.Write(RequestOf(2), [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    writer.Write(RequestOf(3), nullptr);
    writer.WriteFingerprint(WriterJob(1), "f", [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      written.Notify();
    });
    auto result = std::make_shared<KeptResult>();
    result->text = "hi";
    writer.WriteResult(WriterJob(2), result, 77);
    writer.Erase(WriterJob(3));
    written.WaitForNotification();
  }
  const auto jobs = TakeUp();
  ASSERT_EQ(jobs.size(), 2u) << "the third was erased";
  EXPECT_EQ(jobs[0].id, WriterJob(1));
  EXPECT_EQ(jobs[0].fingerprint, "f");
  EXPECT_EQ(jobs[0].result, nullptr);
  EXPECT_EQ(jobs[0].runs, 1u);
  EXPECT_EQ(jobs[0].request.job->prompt.size(), 3u);
  EXPECT_EQ(jobs[1].result->text, "hi");
  EXPECT_EQ(jobs[1].ended_unix_ms, 77);
}

TEST_F(JournalWriterTest, AChangeThatDoesNotFitCostsNoOther) {
  absl::Notification done;
  std::vector<bool> written;
  {
    JournalWriter writer(Open(128 << 10));
    const auto note = [&](const absl::Status& status) { written.push_back(status.ok()); };
    writer.Write(RequestOf(1), note);
    writer.Write(RequestOf(2, 200'000), note);
    writer.Write(RequestOf(3), [&](const absl::Status& status) {
      note(status);
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_EQ(writer.counts().failed, 1);
    EXPECT_EQ(writer.counts().written, 2);
    EXPECT_EQ(writer.counts().waiting, 0);
  }
  EXPECT_EQ(written, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(TakeUp().size(), 2u);
}

TEST_F(JournalWriterTest, NewJobsAreBoundedWhileTheyWait) {
  absl::Notification blocked;
  absl::Notification go_on;
  JournalWriter writer(Open(64 << 20));
  writer.Write(RequestOf(1), [&](const absl::Status&) {
    blocked.Notify();
    go_on.WaitForNotification();
  });
  blocked.WaitForNotification();
  for (size_t i = 0; i < kMaxUnwrittenJobs; ++i) {
    EXPECT_TRUE(writer.HasRoom()) << i;
    writer.Write(RequestOf(2 + i), [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    if (i == 0) writer.Erase(WriterJob(1));
  }
  EXPECT_FALSE(writer.HasRoom());
  go_on.Notify();
}

TEST_F(JournalWriterTest, ARecordThatCannotBeReadIsErasedAndTheOthersStay) {
  {
    auto store = Open();
    ASSERT_TRUE(store->Apply({{.kind = JournalChange::Kind::kRequest, .id = WriterJob(9), .bytes = "\xff\xff"}}).ok());
    JournalWriter writer(std::move(store));
    writer.Write(RequestOf(1), nullptr);
  }
  ASSERT_EQ(TakeUp().size(), 1u);
  EXPECT_EQ(Open()->TakeUp()->size(), 1u);
}

}  // namespace
}  // namespace baton::router
