// Sequences of what several workers, the clients and the clock do to the router's cores. Workers join, work, refuse,
// fail, hand over, drain, report, lie and leave; one that breaks the protocol loses its membership and harms nobody
// else.
#include <cstddef>
#include <cstdint>

#include "common/log.h"
#include "common/testing/fuzz_input.h"
#include "router/testing/fuzzed_cluster.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  baton::FuzzInput input(data, bytes);
  baton::router::FuzzedCluster(input).Run();
  return 0;
}
