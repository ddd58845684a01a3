#include "common/test_delay.h"

#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace baton {
namespace {

using Delays = std::map<std::string, absl::Duration, std::less<>>;

Delays ReadDelays() {
  Delays delays;
  const char* const text = std::getenv("BATON_TEST_DELAYS");
  if (text == nullptr) return delays;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> delay = absl::StrSplit(part, absl::MaxSplits('=', 1));
    int ms = 0;
    if (absl::SimpleAtoi(delay.second, &ms)) delays[delay.first] = absl::Milliseconds(ms);
  }
  return delays;
}

}  // namespace

void TestDelay(std::string_view point) {
  static const auto* const kDelays = new Delays(ReadDelays());
  if (kDelays->empty()) return;
  if (const auto it = kDelays->find(point); it != kDelays->end()) absl::SleepFor(it->second);
}

}  // namespace baton
