#include "telemetry/process_metrics.h"

#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton::telemetry {
namespace {

// Positions in /proc/PID/stat behind the name of the program, which is the only field that may have spaces (proc(5)
// counts from 1, and the first field behind the name is the third).
constexpr size_t kUserTicks = 14 - 3;
constexpr size_t kSystemTicks = 15 - 3;
constexpr size_t kThreads = 20 - 3;
constexpr size_t kStartTicks = 22 - 3;
constexpr size_t kVirtualBytes = 23 - 3;
constexpr size_t kResidentPages = 24 - 3;

constexpr auto kCounter = prometheus::MetricType::Counter;
constexpr auto kGauge = prometheus::MetricType::Gauge;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<double> NumberAt(const std::vector<std::string>& fields, size_t index) {
  double value = 0;
  if (index >= fields.size() || !absl::SimpleAtod(fields[index], &value)) return std::nullopt;
  return value;
}

// The first number behind `key` at the beginning of a line.
std::optional<double> NumberBehind(const std::string& text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    return NumberAt(absl::StrSplit(line, ' ', absl::SkipWhitespace()), 0);
  }
  return std::nullopt;
}

// The fields of /proc/self/stat behind the name of the program.
std::vector<std::string> StatFields(const std::string& proc) {
  const std::string stat = ReadAll(proc + "/self/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  return absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipWhitespace());
}

std::optional<double> SecondsAt(const std::vector<std::string>& fields, size_t index) {
  const std::optional<double> ticks = NumberAt(fields, index);
  if (!ticks.has_value()) return std::nullopt;
  return *ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::optional<double> Sum(std::optional<double> a, std::optional<double> b) {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return *a + *b;
}

// The one that this function itself opens does not count.
std::optional<double> OpenDescriptors(const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  if (error) return std::nullopt;
  return static_cast<double>(std::distance(begin(entries), end(entries)) - 1);
}

void AddFamily(std::vector<prometheus::MetricFamily>& families, const char* name, const char* help,
               prometheus::MetricType type, std::optional<double> value) {
  if (!value.has_value()) return;
  prometheus::ClientMetric metric;
  metric.gauge.value = *value;
  metric.counter.value = *value;
  families.push_back({.name = name, .help = help, .type = type, .metric = {std::move(metric)}});
}

// A heap that is not glibc's, such as a sanitizer's, tells of nothing in use.
void AddHeap(std::vector<prometheus::MetricFamily>& families) {
  const struct mallinfo2 heap = mallinfo2();
  const size_t in_use_bytes = heap.uordblks + heap.hblkhd;
  if (in_use_bytes == 0) return;
  AddFamily(families, "process_heap_in_use_bytes", "Bytes of the heap that the process uses", kGauge,
            static_cast<double>(in_use_bytes));
  AddFamily(families, "process_heap_free_bytes", "Bytes of the heap that are free for the process's next use", kGauge,
            static_cast<double>(heap.fordblks));
}

}  // namespace

ProcessMetrics::ProcessMetrics(std::string proc)
    : proc_(std::move(proc)),
      start_time_s_(Sum(NumberBehind(ReadAll(proc_ + "/stat"), "btime"), SecondsAt(StatFields(proc_), kStartTicks))) {}

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  const std::vector<std::string> fields = StatFields(proc_);
  std::optional<double> resident_bytes = NumberAt(fields, kResidentPages);
  if (resident_bytes.has_value()) *resident_bytes *= static_cast<double>(sysconf(_SC_PAGESIZE));

  std::vector<prometheus::MetricFamily> families;
  AddFamily(families, "process_cpu_seconds_total", "CPU time of all threads, user and system, in seconds", kCounter,
            Sum(SecondsAt(fields, kUserTicks), SecondsAt(fields, kSystemTicks)));
  AddFamily(families, "process_resident_memory_bytes", "Resident memory in bytes", kGauge, resident_bytes);
  AddFamily(families, "process_virtual_memory_bytes", "Virtual memory in bytes", kGauge,
            NumberAt(fields, kVirtualBytes));
  AddFamily(families, "process_open_fds", "Open file descriptors", kGauge, OpenDescriptors(proc_ + "/self/fd"));
  AddFamily(families, "process_max_fds", "How many file descriptors may be open", kGauge,
            NumberBehind(ReadAll(proc_ + "/self/limits"), "Max open files"));
  AddFamily(families, "process_start_time_seconds", "When the process began, in seconds since 1970", kGauge,
            start_time_s_);
  AddFamily(families, "process_threads", "Threads", kGauge, NumberAt(fields, kThreads));
  AddHeap(families);
  return families;
}

}  // namespace baton::telemetry
