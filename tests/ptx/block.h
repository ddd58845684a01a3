// A block of threads: its warps, shared memory and barriers.
#ifndef BATON_TESTS_PTX_BLOCK_H_
#define BATON_TESTS_PTX_BLOCK_H_

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/ptx/launch.h"
#include "tests/ptx/shared_memory.h"
#include "tests/ptx/warp.h"

namespace baton::ptx {

inline constexpr int kMostWarps = 32;
inline constexpr int kBarriers = 16;

// Runs one block after another.
class Block {
 public:
  explicit Block(Launch& launch) : launch_(launch) {}

  // The block with that number in the grid.
  void Run(uint64_t number);

  Launch& launch() { return launch_; }
  const std::array<uint32_t, 3>& index() const { return index_; }
  uint64_t number() const { return number_; }
  SharedMemory& shared() { return shared_; }
  // What warp `reader` knows of the clock of warp `of`.
  uint32_t Seen(int reader, int of) const { return seen_[reader][of]; }
  std::array<uint32_t, 3> Thread(int warp, int lane) const;

 private:
  struct Barrier {
    uint32_t threads = 0;
    uint32_t expected = 0;
    // Warps that wait, and all that arrived.
    uint32_t waiting = 0;
    uint32_t arrived = 0;
  };

  // False where the barrier's operands are wrong.
  bool Arrive(Warp& warp);
  void CompleteBarriers();
  void Complete(Barrier& barrier);
  void CheckExited(const Barrier& barrier);
  void Reduce(const Barrier& barrier);
  void OrderWarps(const Barrier& barrier);
  void ReportStuck();

  Launch& launch_;
  uint64_t number_ = 0;
  std::array<uint32_t, 3> index_ = {};
  SharedMemory shared_;
  std::vector<Warp> warps_;
  uint32_t exited_ = 0;
  uint32_t at_barrier_ = 0;
  Barrier barriers_[kBarriers];
  uint32_t seen_[kMostWarps][kMostWarps] = {};
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_BLOCK_H_
