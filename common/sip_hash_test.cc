#include "common/sip_hash.h"

#include <array>
#include <numeric>

#include "gtest/gtest.h"

namespace baton {
namespace {

// The reference code's vectors: key and input are the bytes 00 01 02 ... OpenSSL's SIPHASH with 16 bytes of output
// gives the same.
TEST(SipHash, IsTheReferencesAtEveryLengthOfTheLastWord) {
  std::array<uint8_t, 80> input;
  std::iota(input.begin(), input.end(), uint8_t{0});
  const SipKey key{.first = 0x0706050403020100, .second = 0x0f0e0d0c0b0a0908};
  const auto hash = [&](size_t bytes) { return SipHash128(key, input.data(), bytes); };
  EXPECT_EQ(hash(0), (Digest128{.high = 0x930255c71472f66d, .low = 0xe6a825ba047f81a3}));
  EXPECT_EQ(hash(1), (Digest128{.high = 0x45fc229b11597634, .low = 0x44af996bd8c187da}));
  EXPECT_EQ(hash(7), (Digest128{.high = 0x3982f01fa64ab8c0, .low = 0x53c1dbd8beebf1a1}));
  EXPECT_EQ(hash(8), (Digest128{.high = 0xb49714f364e2830f, .low = 0x61f55862baa9623b}));
  EXPECT_EQ(hash(15), (Digest128{.high = 0xd9c3cf970fec087e, .low = 0x11a8b03399e99354}));
  EXPECT_EQ(hash(63), (Digest128{.high = 0x7cbd3f979a063e50, .low = 0x4a83502f77d15051}));
  EXPECT_EQ(hash(80), (Digest128{.high = 0x22f80d5a79a4fb58, .low = 0xf870437ae16ac7d2}));
}

TEST(SipHash, DependsOnBothHalvesOfTheKey) {
  const Digest128 hash = SipHash128({1, 2}, "abc", 3);
  EXPECT_EQ(hash, SipHash128({1, 2}, "abc", 3));
  EXPECT_NE(hash, SipHash128({2, 2}, "abc", 3));
  EXPECT_NE(hash, SipHash128({1, 3}, "abc", 3));
}

}  // namespace
}  // namespace baton
