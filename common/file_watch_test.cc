#include "common/file_watch.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

class FileWatchTest : public ::testing::Test {
 protected:
  FileWatchTest() { Write("one"); }
  ~FileWatchTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& content) { std::ofstream(path_) << content; }
  // Whether `change` is noticed that comes after the watch was made.
  template <typename Change>
  bool Notices(Change change) {
    absl::Notification noticed;
    FileWatch watch({path_});
    change();
    watch.Start(
        [&noticed] {
          if (!noticed.HasBeenNotified()) noticed.Notify();
        },
        /*interval_ms=*/1);
    return noticed.WaitForNotificationWithTimeout(absl::Seconds(20));
  }

  const std::string folder_ = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "baton_watch_XXXXXX").string();
    return std::string(mkdtemp(pattern.data()));
  }();
  const std::string path_ = folder_ + "/file";
};

TEST_F(FileWatchTest, NewContentIsNoticed) {
  EXPECT_TRUE(Notices([this] { Write("three"); }));
}

TEST_F(FileWatchTest, AnotherFileOfTheSameSizeIsNoticed) {
  EXPECT_TRUE(Notices([this] {
    std::ofstream(path_ + ".new") << "two";
    std::filesystem::rename(path_ + ".new", path_);
  }));
}

TEST_F(FileWatchTest, ALinkThatLeadsElsewhereIsNoticed) {
  std::filesystem::rename(path_, folder_ + "/first");
  std::ofstream(folder_ + "/second") << "two";
  std::filesystem::create_symlink("first", path_);
  EXPECT_TRUE(Notices([this] {
    std::filesystem::create_symlink("second", folder_ + "/link");
    std::filesystem::rename(folder_ + "/link", path_);
  }));
}

TEST_F(FileWatchTest, AFileThatGoesIsNoticed) {
  EXPECT_TRUE(Notices([this] { std::filesystem::remove(path_); }));
}

TEST_F(FileWatchTest, NothingIsSaidOfFilesThatStay) {
  int calls = 0;
  {
    FileWatch watch({path_, folder_ + "/none"});
    watch.Start([&calls] { ++calls; }, /*interval_ms=*/1);
    absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(20));
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace baton
