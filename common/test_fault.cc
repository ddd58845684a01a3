#include "common/test_fault.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/check.h"

namespace baton {
namespace {

struct Planted {
  std::string kind;
  int32_t token = -1;
};

Planted ReadPlanted() {
  Planted planted;
  const char* const text = std::getenv("BATON_TEST_FAULT");
  if (text == nullptr) return planted;
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  planted.kind = parts.first;
  if (!absl::SimpleAtoi(parts.second, &planted.token)) planted.token = -1;
  return planted;
}

// A gigabyte, in calls that a compiler cannot leave out.
int FillStack(int depth) {
  if (depth == 1 << 18) return 0;
  volatile char page[4096];
  page[0] = static_cast<char>(depth);
  return FillStack(depth + 1) + page[0];
}

}  // namespace

void TestFault(absl::Span<const int32_t> tokens) {
  static const auto* const kPlanted = new Planted(ReadPlanted());
  if (kPlanted->token < 0 || std::find(tokens.begin(), tokens.end(), kPlanted->token) == tokens.end()) return;
  BATON_CHECK(kPlanted->kind != "abort") << "planted by a test";
  if (kPlanted->kind == "overflow") std::exit(FillStack(0));
  if (kPlanted->kind == "segv") *static_cast<volatile int*>(nullptr) = 0;
}

}  // namespace baton
