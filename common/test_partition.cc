#include "common/test_partition.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace baton {
namespace {

// The discard port, which nobody serves on loopback any more.
constexpr char kNobody[] = "127.0.0.1:9";

}  // namespace

std::string TestTarget(const std::string& target) {
  static const char* const kPath = std::getenv("BATON_TEST_PARTITION");
  if (kPath == nullptr) return target;
  std::ifstream file(kPath);
  pid_t pid = 0;
  for (std::string unreachable; file >> pid >> unreachable;) {
    if (pid == getpid() && unreachable == target) return kNobody;
  }
  return target;
}

}  // namespace baton
