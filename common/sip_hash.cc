#include "common/sip_hash.h"

#include <bit>
#include <cstring>

namespace baton {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr size_t kWordBytes = 8;
constexpr int kFinalRounds = 4;

struct SipState {
  uint64_t v0, v1, v2, v3;

  explicit SipState(const SipKey& key)
      : v0(key.first ^ 0x736f6d6570736575),
        v1(key.second ^ 0x646f72616e646f6d ^ 0xee),
        v2(key.first ^ 0x6c7967656e657261),
        v3(key.second ^ 0x7465646279746573) {}

  void Round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }

  void Absorb(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }

  uint64_t Finish() {
    for (int i = 0; i < kFinalRounds; ++i) Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

Digest128 SipHash128(const SipKey& key, const void* data, size_t bytes) {
  SipState state(key);
  const auto* at = static_cast<const uint8_t*>(data);
  uint64_t word = 0;
  for (size_t left = bytes; left >= kWordBytes; left -= kWordBytes, at += kWordBytes) {
    std::memcpy(&word, at, kWordBytes);
    state.Absorb(word);
  }
  // The last word is the rest of the bytes, and in its highest byte their number.
  word = static_cast<uint64_t>(bytes) << 56;
  for (size_t i = 0; i < bytes % kWordBytes; ++i) word |= uint64_t{at[i]} << (8 * i);
  state.Absorb(word);
  state.v2 ^= 0xee;
  const uint64_t low = state.Finish();
  state.v1 ^= 0xdd;
  return {.high = state.Finish(), .low = low};
}

}  // namespace baton
