// The randomness of the cores. It is injected, so that a seed repeats a run.
#ifndef BATON_COMMON_RANDOM_H_
#define BATON_COMMON_RANDOM_H_

#include <cstdint>

#include "common/ids.h"

namespace baton {

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual uint64_t Next64() = 0;

  // Uniform in [0, bound); bound > 0. The bias of the modulo is below 2^-32 for bounds below 2^32.
  uint64_t Below(uint64_t bound) { return Next64() % bound; }
  Id128 NextId();
};

// SplitMix64 (Steele, Lea, Flood 2014). Not thread-safe.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next64() override;

 private:
  uint64_t state_;
};

// The operating system's generator. Thread-safe.
RandomSource& SystemRandom();

}  // namespace baton

#endif  // BATON_COMMON_RANDOM_H_
