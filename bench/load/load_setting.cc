#include "bench/load/load_setting.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace baton::bench {
namespace {

std::string Lengths(const LengthRange& range) {
  return range.min == range.max ? absl::StrCat(range.min) : absl::StrCat(range.min, " to ", range.max);
}

std::string Arrivals(const LoadSetting& setting) {
  if (!setting.trace.empty()) return absl::StrCat("trace ", setting.trace, ", at most ");
  if (setting.request_rate > 0) return absl::StrFormat("Poisson, %g requests/s, at most ", setting.request_rate);
  return "closed loop, ";
}

}  // namespace

std::string DescribeLoad(const LoadSetting& setting) {
  const std::string grammar =
      setting.grammar.empty() ? "" : absl::StrCat(" that match a grammar (", setting.grammar, ")");
  return absl::StrCat(Arrivals(setting), setting.max_concurrency, " in flight, ", Lengths(setting.prompt_tokens),
                      " tokens in, ", Lengths(setting.output_tokens), " out", grammar, ", seed ", setting.seed);
}

std::string DescribeServer(const LoadSetting& setting) {
  if (!setting.cluster.has_value()) return absl::StrCat(setting.backend, " server at ", setting.target);
  std::vector<std::string> kinds;
  int last = 0;
  const auto add = [&](int workers, const char* kind) {
    if (workers == 0) return;
    kinds.push_back(absl::StrCat(workers, " ", kind));
    last = workers;
  };
  add(setting.cluster->prefill, "prefill");
  add(setting.cluster->decode, "decode");
  add(setting.cluster->mixed, "mixed");
  if (kinds.empty()) return absl::StrCat("no workers at ", setting.target);
  return absl::StrCat(absl::StrJoin(kinds, " and "), last == 1 ? " worker at " : " workers at ", setting.target);
}

std::string DescribeDate(const LoadSetting& setting) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", setting.date, absl::UTCTimeZone());
}

}  // namespace baton::bench
