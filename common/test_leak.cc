#include "common/test_leak.h"

#include <cstdlib>
#include <string>

namespace baton {
namespace {

std::string ReadPoint() {
  const char* const text = std::getenv("BATON_TEST_LEAK");
  return text == nullptr ? "" : text;
}

}  // namespace

bool TestLeak(std::string_view point) {
  static const auto* const kPoint = new std::string(ReadPoint());
  return !kPoint->empty() && *kPoint == point;
}

}  // namespace baton
