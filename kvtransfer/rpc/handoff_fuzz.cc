// Sequences of Fetch messages, and of all else that happens at one end of a hand-off. The peer says anything: wrong
// counts, offsets beyond every region, damaged digests, blocks twice, another job's secret, and ends before beginnings.
// Each end keeps its rules, and comes to rest.
#include <cstddef>
#include <cstdint>

#include "common/testing/fuzz_input.h"
#include "kvtransfer/testing/fuzzed_sink.h"
#include "kvtransfer/testing/fuzzed_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  baton::FuzzInput input(data, bytes);
  if (input.Flag()) {
    baton::kvtransfer::FuzzedSource(input).Run();
  } else {
    baton::kvtransfer::FuzzedSink(input).Run();
  }
  return 0;
}
