// One launch of a kernel on the emulated device.
//
// WHAT IS MODELLED. Every lane of a warp has its own program counter; the lanes with the least one run together, so
// divergent branches meet again where their paths do. An operation that names lanes (shfl.sync, vote.sync, mma, ...)
// waits for them. Warps of a block take turns of random length, drawn from a seed; blocks run in an order drawn from
// the seed, on several host threads where Options say so. Memory is sequentially consistent: a store is seen at once.
// cp.async reads its source when it is issued and writes its destination only when the thread waits for it.
//
// WHAT IS NOT. Weak memory ordering, caches (ld.global.nc sees what the launch wrote), timing (clock counts executed
// instructions), clusters, TMA, wgmma, mbarrier, textures, printf, indirect calls, recursion. An instruction, directive
// or modifier that is not known is an error when the module is loaded.
//
// ARITHMETIC is IEEE 754 as the PTX ISA says, NaN results of f32 are 0x7fffffff. Where the ISA gives only an error
// bound, the value here is the one rounded to nearest (ex2, lg2, sin, cos, tanh, rsqrt: that of double precision,
// rounded), so hardware may differ within the bound: they, rcp, sqrt and div with .approx, div.full. mma: each product
// is exact and is added to the accumulator by one fused multiply-add in f32, rounded to nearest even, over k in
// ascending order from the value of C. Hardware sums in an order and with a rounding that are not documented. Each
// element of D depends on its own row and column alone.
//
// CHECKERS. See FindingKind. A copy of cp.async, an access, a register is checked where it is used; a launch goes on
// after a finding, with zeros for what cannot be read, until it would wait for ever. A bar.sync without a count is
// reported where lanes of a warp, or warps, wait at different ones for ever, and, as Options say, where a thread exited
// without it after it stored something since the last barrier: CUDA lets threads exit, but who stores and exits mostly
// stands in the wrong branch. shfl, vote and their kin are reported where their mask names lanes that have exited, that
// never come, or not the caller. Races on shared memory are found by vector clocks: an access is remembered for each
// byte (the last write, the last atomic access, and three reads: the last, one of another lane of its warp, one of
// another warp), and two accesses of different threads, at least one a write, race unless bar.sync and its kin (between
// warps) or bar.warp.sync (between lanes) order them. Order that a program makes through flags in memory or by fences
// is not seen. shfl, vote and mma do not order memory. A read that three later reads displaced can be missed. Races
// between blocks on global memory are looked for where Options say so, on one host thread; those within a block are
// not.
#ifndef BATON_TESTS_PTX_LAUNCH_H_
#define BATON_TESTS_PTX_LAUNCH_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/ptx/device_memory.h"
#include "tests/ptx/findings.h"
#include "tests/ptx/program.h"

namespace baton::ptx {

struct Options {
  uint64_t seed = 1;
  int host_threads = 1;
  bool check_uninitialized = true;
  bool check_shared_races = true;
  // Threads that exited after a store while others wait at a barrier.
  bool check_exited_threads = true;
  // Bytes that nobody wrote in copies to the host.
  bool check_copies = true;
  bool check_global_races = false;
  // Of lanes, in one launch.
  uint64_t most_instructions = 200'000'000'000;
};

struct Launch {
  const KernelProgram* kernel = nullptr;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t dynamic_shared = 0;
  std::vector<uint8_t> params;
  DeviceMemory* memory = nullptr;
  FindingList* findings = nullptr;
  Options options;
  // Differs from that of every other launch.
  uint32_t number = 1;
  // Of lanes.
  std::atomic<uint64_t> instructions = 0;
  // Set by a block that cannot go on.
  std::atomic<bool> stopped = false;

  uint32_t Threads() const { return block[0] * block[1] * block[2]; }
};

// Runs all blocks. What is wrong is in `findings` afterwards.
void Run(Launch& launch);

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_LAUNCH_H_
