#include "tests/nccl/faults.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace baton::nccl_stand_in {
namespace {

const std::map<std::string, Fault> kNames = {
    {"", Fault::kNone},
    {"init-fails", Fault::kInitFails},
    {"init-hangs", Fault::kInitHangs},
    {"network-error", Fault::kNetworkError},
    {"silent-peer", Fault::kSilentPeer},
    {"bit-flip", Fault::kBitFlip},
    {"process-dies", Fault::kProcessDies},
};

struct Plan {
  Fault fault = Fault::kNone;
  uint64_t every_bytes = 0;
  uint64_t received = 0;
};

Plan Parse(const std::string& words) {
  const size_t colon = words.find(':');
  const auto name = kNames.find(words.substr(0, colon));
  if (name == kNames.end()) {
    std::fprintf(stderr, "the stand-in of NCCL knows no fault \"%s\"\n", words.c_str());
    std::abort();
  }
  Plan plan{.fault = name->second};
  if (colon != std::string::npos) plan.every_bytes = std::strtoull(words.c_str() + colon + 1, nullptr, 10);
  return plan;
}

std::mutex mutex;

// Under the mutex.
Plan& ThePlan() {
  static Plan plan = [] {
    const char* const words = std::getenv("BATON_STAND_IN_NCCL_FAULT");
    return Parse(words == nullptr ? "" : words);
  }();
  return plan;
}

}  // namespace

void SetFault(const std::string& words) {
  const std::lock_guard lock(mutex);
  ThePlan() = Parse(words);
}

Fault FaultOfInit() {
  const std::lock_guard lock(mutex);
  const Fault fault = ThePlan().fault;
  return fault == Fault::kInitFails || fault == Fault::kInitHangs ? fault : Fault::kNone;
}

Fault FaultOfBytes(uint64_t received) {
  const std::lock_guard lock(mutex);
  Plan& plan = ThePlan();
  if (plan.every_bytes == 0) return Fault::kNone;
  plan.received += received;
  if (plan.received < plan.every_bytes) return Fault::kNone;
  plan.received -= plan.every_bytes;
  return plan.fault;
}

}  // namespace baton::nccl_stand_in
