#include "router/journal_store.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "gtest/gtest.h"
#include "router/testing/scratch_folder.h"

namespace baton::router {
namespace {

using Kind = JournalChange::Kind;

constexpr JobId kFirst = {.high = 0x8000000000000001, .low = 2};
constexpr JobId kSecond = {.high = 3, .low = 0xffffffffffffffff};

JournalChange Request(const JobId& id, std::string bytes = "request") {
  return {.kind = Kind::kRequest, .id = id, .bytes = std::move(bytes)};
}
JournalChange Result(const JobId& id) {
  return {.kind = Kind::kResult, .id = id, .bytes = "result", .unix_ms = 1'700'000'000'000};
}

class JournalStoreTest : public ::testing::Test {
 protected:
  std::string File(const char* end = "") const { return absl::StrCat(folder_.path(), "/state/journal.sqlite", end); }
  JournalStoreOptions Options() const { return {.folder = absl::StrCat(folder_.path(), "/state")}; }
  std::unique_ptr<JournalStore> Open() const {
    auto store = JournalStore::Open(Options());
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  absl::Status OpenError() const { return JournalStore::Open(Options()).status(); }
  // All that is in the folder's files.
  std::string AllBytes() const {
    std::string bytes;
    for (const auto& entry : std::filesystem::directory_iterator(Options().folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      bytes.append(std::istreambuf_iterator<char>(file), {});
    }
    return bytes;
  }
  // Runs `write` with the store in a process that then dies at once.
  template <typename Write>
  void InAProcessThatDies(Write write) const {
    const pid_t child = fork();
    if (child == 0) {
      auto store = JournalStore::Open(Options());
      if (!store.ok() || !write(**store)) _exit(1);
      kill(getpid(), SIGKILL);
    }
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    ASSERT_TRUE(WIFSIGNALED(state)) << "the child could not write";
  }

  ScratchFolder folder_;
};

TEST_F(JournalStoreTest, WhatWasAppliedSurvivesAKilledProcessInItsOrder) {
  InAProcessThatDies([](JournalStore& store) {
    return store.Apply({Request(kFirst, std::string("a\0b", 3)), Request(kSecond)}).ok() &&
           store.Apply({{.kind = Kind::kFingerprint, .id = kSecond, .bytes = "f"}, Result(kSecond)}).ok();
  });
  const auto rows = Open()->TakeUp();
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].id, kFirst);
  EXPECT_EQ((*rows)[0].request, std::string("a\0b", 3));
  EXPECT_EQ((*rows)[0].fingerprint, "");
  EXPECT_EQ((*rows)[0].result, "");
  EXPECT_EQ((*rows)[1].id, kSecond);
  EXPECT_EQ((*rows)[1].fingerprint, "f");
  EXPECT_EQ((*rows)[1].result, "result");
  EXPECT_EQ((*rows)[1].ended_unix_ms, 1'700'000'000'000);
}

TEST_F(JournalStoreTest, EachTakingUpOfAJobThatRunsIsCounted) {
  ASSERT_TRUE(Open()->Apply({Request(kFirst), Request(kSecond), Result(kSecond)}).ok());
  EXPECT_EQ((*Open()->TakeUp())[0].runs, 1u);
  const auto rows = Open()->TakeUp();
  EXPECT_EQ((*rows)[0].runs, 2u);
  EXPECT_EQ((*rows)[1].runs, 0u) << "it has ended";
}

TEST_F(JournalStoreTest, FolderAndFilesAreTheOwnersAlone) {
  const auto store = Open();
  ASSERT_TRUE(store->Apply({Request(kFirst)}).ok());
  const auto mode = [](const std::string& path) {
    struct stat state {};
    EXPECT_EQ(stat(path.c_str(), &state), 0) << path;
    return state.st_mode & 07777;
  };
  EXPECT_EQ(mode(Options().folder), 0700u);
  EXPECT_EQ(mode(File()), 0600u);
  EXPECT_EQ(mode(File("-wal")), 0600u);
}

TEST_F(JournalStoreTest, AFileThatOthersCouldReadIsMadePrivate) {
  Open();
  ASSERT_EQ(chmod(File().c_str(), 0644), 0);
  const auto store = Open();
  struct stat state {};
  ASSERT_EQ(stat(File().c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 07777, 0600u);
}

TEST_F(JournalStoreTest, NoByteOfAnErasedJobIsLeft) {
  const auto store = Open();
  const std::string secret = "the secret of a prompt";
  ASSERT_TRUE(store->Apply({Request(kFirst, secret), Request(kSecond, std::string(20'000, 'x') + secret)}).ok());
  ASSERT_NE(AllBytes().find(secret), std::string::npos);
  ASSERT_TRUE(store->Apply({{.kind = Kind::kErase, .id = kFirst}, {.kind = Kind::kErase, .id = kSecond}}).ok());
  EXPECT_EQ(AllBytes().find(secret), std::string::npos);
  EXPECT_TRUE(store->TakeUp()->empty());
}

TEST_F(JournalStoreTest, ChangesOfAJobThatWasErasedDoNothing) {
  const auto store = Open();
  EXPECT_TRUE(store->Apply({Result(kFirst), {.kind = Kind::kErase, .id = kFirst}}).ok());
  EXPECT_TRUE(store->TakeUp()->empty());
}

TEST_F(JournalStoreTest, AFullFileTakesNoneOfTheChangesAndLaterOnesAgain) {
  JournalStoreOptions options = Options();
  EXPECT_EQ(JournalStoreOptions().max_bytes, kMaxJournalBytes);
  options.max_bytes = 128 << 10;
  auto opened = JournalStore::Open(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  JournalStore& store = **opened;
  const absl::Status full = store.Apply({Request(kFirst), Request(kSecond, std::string(256 << 10, 'x'))});
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_NE(full.message().find("make room"), std::string::npos) << full;
  EXPECT_TRUE(store.TakeUp()->empty());
  EXPECT_TRUE(store.Apply({Request(kFirst)}).ok());
  EXPECT_EQ(store.TakeUp()->size(), 1u);
  EXPECT_LE(store.size_bytes(), options.max_bytes);
}

TEST_F(JournalStoreTest, ASecondRouterIsRefused) {
  const auto store = Open();
  // Locks are the process's, so only another one is refused.
  const pid_t child = fork();
  if (child == 0) _exit(absl::IsFailedPrecondition(OpenError()) ? 0 : 1);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

TEST_F(JournalStoreTest, AFileThatIsNoDatabaseIsRefusedInOneLineAndLeftAsItIs) {
  Open();
  const std::string text = "this is\nno database" + std::string(4096, '.');
  std::ofstream(File(), std::ios::binary | std::ios::trunc) << text;
  const absl::Status refused = OpenError();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_NE(refused.message().find(File()), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("move the file away"), std::string::npos) << refused;
  EXPECT_EQ(refused.message().find('\n'), std::string::npos) << refused;
  std::ifstream file(File(), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST_F(JournalStoreTest, ADamagedFileIsRefusedInOneLine) {
  {
    const auto store = Open();
    for (uint64_t i = 1; i <= 50; ++i) {
      ASSERT_TRUE(store->Apply({Request({.high = i, .low = i}, std::string(3000, 'x'))}).ok());
    }
  }
  const auto size = std::filesystem::file_size(File());
  ASSERT_GT(size, 64u << 10);
  std::fstream file(File(), std::ios::binary | std::ios::in | std::ios::out);
  // Behind the first page, which says what the file is.
  file.seekp(4096);
  file << std::string(size - 8192, '\x5a');
  file.close();
  const absl::Status refused = OpenError();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_EQ(refused.message().find('\n'), std::string::npos) << refused;
}

TEST_F(JournalStoreTest, TheDatabaseOfAnotherProgramAndThatOfANewerBatonAreRefused) {
  const auto run = [this](const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(File().c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  };
  Open();
  run("PRAGMA user_version = 2");
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenError())) << OpenError();
  EXPECT_NE(OpenError().message().find("version 2"), std::string::npos) << OpenError();
  run("PRAGMA application_id = 7");
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenError())) << OpenError();
  EXPECT_NE(OpenError().message().find("another program"), std::string::npos) << OpenError();
}

TEST_F(JournalStoreTest, AFolderThatCannotBeIsRefusedWithWhatToDo) {
  std::ofstream(folder_.path() + "/state") << "a file";
  const absl::Status refused = OpenError();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_NE(refused.message().find("name a folder"), std::string::npos) << refused;
}

}  // namespace
}  // namespace baton::router
