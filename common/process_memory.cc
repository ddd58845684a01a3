#include "common/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace baton {

int64_t ResidentBytesBesidesFiles() {
  std::ifstream status("/proc/self/status");
  int64_t kib = 0;
  for (std::string name; status >> name; status.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    int64_t part = 0;
    if ((name == "RssAnon:" || name == "RssShmem:") && status >> part) kib += part;
  }
  return kib << 10;
}

}  // namespace baton
