#include "telemetry/process_metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/testing/slow_build.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

std::map<std::string, double> AllValues(const ProcessMetrics& metrics) {
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    EXPECT_EQ(family.metric.size(), 1u);
    values[family.name] = family.metric[0].gauge.value;
    EXPECT_FALSE(family.help.empty());
  }
  return values;
}

// The values that come from /proc.
std::map<std::string, double> Values(const ProcessMetrics& metrics) {
  std::map<std::string, double> values = AllValues(metrics);
  values.erase("process_heap_in_use_bytes");
  values.erase("process_heap_free_bytes");
  return values;
}

TEST(ProcessMetrics, TellOfThisProcess) {
  const ProcessMetrics metrics;
  std::map<std::string, double> before = Values(metrics);
  EXPECT_THAT(before, ElementsAre(Key("process_cpu_seconds_total"), Key("process_max_fds"), Key("process_open_fds"),
                                  Key("process_resident_memory_bytes"), Key("process_start_time_seconds"),
                                  Key("process_threads"), Key("process_virtual_memory_bytes")));
  EXPECT_GT(before["process_resident_memory_bytes"], 1e6);
  EXPECT_GT(before["process_virtual_memory_bytes"], before["process_resident_memory_bytes"]);
  // The time of the system's start is a whole number of seconds.
  const double age_s = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - before["process_start_time_seconds"];
  EXPECT_GE(age_s, -2);
  EXPECT_LT(age_s, 3600);

  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::thread thread([&] { EXPECT_EQ(Values(metrics)["process_threads"], before["process_threads"] + 1); });
  thread.join();
  EXPECT_EQ(Values(metrics)["process_open_fds"], before["process_open_fds"] + 1);
  close(fd);
}

TEST(ProcessMetrics, TellWhatTheHeapHasInUseAndFree) {
  if (kIsSlowBuild) GTEST_SKIP() << "a sanitizer has a heap of its own";
  const ProcessMetrics metrics;
  // malloc takes the first size from an arena, and makes a mapping of its own for the second.
  for (const size_t bytes : {size_t{64} << 10, size_t{64} << 20}) {
    const double before = AllValues(metrics)["process_heap_in_use_bytes"];
    auto held = std::make_unique<std::string>(bytes, 'x');
    const double with = AllValues(metrics)["process_heap_in_use_bytes"];
    EXPECT_NEAR(with - before, static_cast<double>(bytes), 0.2 * static_cast<double>(bytes));
    held.reset();
    EXPECT_LT(AllValues(metrics)["process_heap_in_use_bytes"], with - 0.8 * static_cast<double>(bytes));
  }
  EXPECT_GT(AllValues(metrics)["process_heap_free_bytes"], 0);
}

// A folder like /proc with the given files.
class ProcFolder {
 public:
  explicit ProcFolder(const std::map<std::string, std::string>& files)
      : path_(testing::TempDir() + "/proc_" + std::to_string(getpid())) {
    std::filesystem::create_directories(path_ + "/self/fd");
    for (const auto& [name, text] : files) std::ofstream(path_ + "/" + name) << text;
  }
  ~ProcFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(ProcessMetrics, AProgramsNameMayHaveSpacesAndParentheses) {
  const ProcFolder proc(
      {{"self/stat",
        "7 (a ) 1 2 3 (b) R 1 1 1 0 -1 4194304 9 0 0 0 250 150 0 0 20 0 12 0 1000 4096 3 18446744073709551615"},
       {"self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 4096                 files     \n"},
       {"stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 4\n"}});
  std::map<std::string, double> values = Values(ProcessMetrics(proc.path()));
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(values["process_cpu_seconds_total"], 400 / ticks);
  EXPECT_EQ(values["process_threads"], 12);
  EXPECT_EQ(values["process_start_time_seconds"], 1.7e9 + 1000 / ticks);
  EXPECT_EQ(values["process_virtual_memory_bytes"], 4096);
  EXPECT_EQ(values["process_resident_memory_bytes"], 3.0 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(values["process_max_fds"], 1024);
}

TEST(ProcessMetrics, WhatTheSystemDoesNotTellIsLeftOut) {
  EXPECT_THAT(Values(ProcessMetrics("/no/such/folder")), IsEmpty());
  const ProcFolder proc(
      {{"self/stat", "7 (baton) R 1"}, {"self/limits", "Max open files            unlimited  unlimited files\n"}});
  std::map<std::string, double> values = Values(ProcessMetrics(proc.path()));
  values.erase("process_open_fds");
  EXPECT_THAT(values, IsEmpty());
}

}  // namespace
}  // namespace baton::telemetry
