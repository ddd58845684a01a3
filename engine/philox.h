// Philox4x32-10: a counter-based generator, so that draw N of a stream needs no state (Salmon, Moraes, Dror, Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Pure functions, any thread.
#ifndef BATON_ENGINE_PHILOX_H_
#define BATON_ENGINE_PHILOX_H_

#include <array>
#include <cstdint>

namespace baton::engine {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Names one draw. `choice` tells parallel answers to one request apart, `draw` several draws at one position.
struct DrawIndex {
  uint32_t choice = 0;
  uint32_t position = 0;
  uint32_t draw = 0;
};

// In [0, 1), a multiple of 2^-24.
constexpr float UniformDraw(uint64_t seed, const DrawIndex& index) {
  const PhiloxCounter x = Philox4x32({index.choice, index.position, index.draw, 0},
                                     {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<float>(x[0] >> 8) * 0x1p-24f;
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_PHILOX_H_
