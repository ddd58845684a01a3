#include "tests/ptx/launch.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "tests/ptx/block.h"

namespace baton::ptx {
namespace {

// The number of the block that runs as the i-th: a permutation that needs no list, because the step has no common
// factor with the count.
class BlockOrder {
 public:
  BlockOrder(uint64_t count, uint64_t seed) : count_(count) {
    std::mt19937_64 random(seed);
    first_ = random() % count;
    do {
      step_ = 1 + random() % count;
    } while (std::gcd(step_, count) != 1);
  }
  uint64_t operator[](uint64_t i) const {
    return static_cast<uint64_t>((first_ + static_cast<unsigned __int128>(i) * step_) % count_);
  }

 private:
  uint64_t count_;
  uint64_t first_ = 0;
  uint64_t step_ = 1;
};

}  // namespace

void Run(Launch& launch) {
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const BlockOrder order(blocks, launch.options.seed);
  std::atomic<uint64_t> next = 0;
  auto work = [&] {
    Block block(launch);
    for (uint64_t i = next++; i < blocks && !launch.stopped; i = next++) block.Run(order[i]);
  };
  const int threads = launch.options.check_global_races ? 1 : launch.options.host_threads;
  std::vector<std::thread> others;
  for (int i = 1; i < threads && static_cast<uint64_t>(i) < blocks; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace baton::ptx
