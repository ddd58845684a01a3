#include "simulator/run_name.h"

#include <array>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton::simulator {
namespace {

constexpr std::array<std::pair<RunKind, const char*>, 3> kKinds = {{
    {RunKind::kShort, "short"},
    {RunKind::kLong, "long"},
    {RunKind::kThousandSeconds, "thousand"},
}};
// No run has more faults or requests.
constexpr int kMaxNumber = 1 << 20;
// A worker has no more of them (docs/serving.md).
constexpr int kMaxRouters = 16;

std::string JoinRanges(const std::set<int>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int first = *it;
    int last = first;
    while (++it != numbers.end() && *it == last + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", first);
    if (last > first) absl::StrAppend(&text, "-", last);
  }
  return text;
}

bool ParseRanges(absl::string_view text, std::set<int>& numbers) {
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || first < 0) return false;
    if (!absl::SimpleAtoi(ends.back(), &last) || last > kMaxNumber) return false;
    for (int number = first; number <= last; ++number) numbers.insert(number);
  }
  return true;
}

bool ParseWord(absl::string_view word, absl::string_view value, RunOptions& options) {
  if (word == "routers") {
    return absl::SimpleAtoi(value, &options.routers) && options.routers > 0 && options.routers <= kMaxRouters;
  }
  if (word == "kept") {
    return absl::SimpleAtoi(value, &options.kept_percent) && options.kept_percent >= 0 && options.kept_percent <= 100;
  }
  if (word == "jitter") return absl::SimpleAtoi(value, &options.jitter);
  if (word == "without-faults") return ParseRanges(value, options.left_out_faults);
  if (word == "without-requests") return ParseRanges(value, options.left_out_requests);
  for (const auto& [kind, name] : kKinds) {
    if (word != name) continue;
    options.kind = kind;
    return absl::SimpleAtoi(value, &options.seed);
  }
  return false;
}

}  // namespace

std::string NameOfRun(const RunOptions& options) {
  std::string name = absl::StrCat(kKinds[static_cast<size_t>(options.kind)].second, " ", options.seed);
  if (options.routers > 0) absl::StrAppend(&name, " routers ", options.routers);
  if (options.kept_percent >= 0) absl::StrAppend(&name, " kept ", options.kept_percent);
  if (options.jitter > 0) absl::StrAppend(&name, " jitter ", options.jitter);
  if (!options.left_out_faults.empty()) absl::StrAppend(&name, " without-faults ", JoinRanges(options.left_out_faults));
  if (!options.left_out_requests.empty()) {
    absl::StrAppend(&name, " without-requests ", JoinRanges(options.left_out_requests));
  }
  return name;
}

absl::StatusOr<RunOptions> ParseRunName(std::string_view name) {
  const absl::string_view text(name.data(), name.size());
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
  RunOptions options;
  bool good = !words.empty() && words.size() % 2 == 0;
  for (size_t i = 0; good && i < words.size(); i += 2) good = ParseWord(words[i], words[i + 1], options);
  if (!good) return absl::InvalidArgumentError(absl::StrCat("no name of a run: ", text));
  return options;
}

}  // namespace baton::simulator
