#include "router/journal_tasks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "gtest/gtest.h"

namespace baton::router {
namespace {

JobId TaskJob(uint64_t number) { return {.high = 2, .low = number}; }

// Notes each transaction that succeeds as "request 1, erase 2"; takes none while it is full.
class NotedRecords final : public JournalRecords {
 public:
  absl::StatusOr<std::vector<JournalRow>> TakeUp() override { return std::vector<JournalRow>(); }
  absl::Status Apply(absl::Span<const JournalChange> changes) override {
    ++attempts_;
    if (full_) return absl::ResourceExhaustedError("disk full");
    std::string text;
    for (const JournalChange& change : changes) {
      const char* kind = change.kind == JournalChange::Kind::kErase         ? "erase "
                         : change.kind == JournalChange::Kind::kFingerprint ? "fingerprint "
                                                                            : "other ";
      text += (text.empty() ? "" : ", ") + std::string(kind) + std::to_string(change.id.low);
    }
    transactions_.push_back(text);
    return absl::OkStatus();
  }
  int64_t size_bytes() const override { return 0; }

  bool full_ = false;
  int attempts_ = 0;
  std::vector<std::string> transactions_;
};

class JournalTaskWriterTest : public ::testing::Test {
 protected:
  std::vector<absl::Status> Write(std::vector<JournalTask> tasks) { return writer_.Write(tasks).statuses; }
  static JournalTask Erase(uint64_t job) {
    return {.change = {.kind = JournalChange::Kind::kErase, .id = TaskJob(job)}};
  }
  static JournalTask Fingerprint(uint64_t job) {
    return {.change = {.kind = JournalChange::Kind::kFingerprint, .id = TaskJob(job), .bytes = "f"}};
  }

  NotedRecords records_;
  JournalTaskWriter writer_{records_};
};

TEST_F(JournalTaskWriterTest, WhatComesTogetherIsOneTransaction) {
  EXPECT_EQ(Write({Fingerprint(1), Erase(2)}).size(), 2u);
  EXPECT_EQ(records_.transactions_, std::vector<std::string>{"fingerprint 1, erase 2"});
}

TEST_F(JournalTaskWriterTest, WhatAFullDiskKeepsIsErasedOnceThereIsRoom) {
  records_.full_ = true;
  for (const absl::Status& status : Write({Erase(1), Fingerprint(2)})) EXPECT_FALSE(status.ok());
  EXPECT_TRUE(writer_.has_unerased());
  EXPECT_TRUE(Write({}).empty());
  EXPECT_TRUE(writer_.has_unerased());
  records_.full_ = false;
  EXPECT_TRUE(Write({Fingerprint(3)}).front().ok());
  EXPECT_FALSE(writer_.has_unerased());
  EXPECT_EQ(records_.transactions_, (std::vector<std::string>{"erase 1", "fingerprint 3"}))
      << "before anything new, and other changes are told as failed and not tried again";
}

TEST_F(JournalTaskWriterTest, WithoutAFailedEraseNothingIsTriedAgain) {
  records_.full_ = true;
  Write({Fingerprint(1)});
  EXPECT_FALSE(writer_.has_unerased());
  EXPECT_EQ(records_.attempts_, 1);
}

TEST_F(JournalTaskWriterTest, WhatIsStillToBeErasedIsBounded) {
  records_.full_ = true;
  std::vector<JournalTask> tasks;
  for (uint64_t job = 0; job <= kMaxUnerasedRecords; ++job) tasks.push_back(Erase(job));
  Write(std::move(tasks));
  records_.full_ = false;
  Write({});
  ASSERT_EQ(records_.transactions_.size(), 1u);
  const std::string& erased = records_.transactions_.front();
  EXPECT_EQ(std::count(erased.begin(), erased.end(), ','), static_cast<int64_t>(kMaxUnerasedRecords) - 1);
}

}  // namespace
}  // namespace baton::router
