#include "engine/kernels/gguf_quant_group.h"

#include "common/check.h"
#include "engine/kernels/half.h"
#include "engine/kernels/packed_layout.h"

namespace baton::engine::kernels {
namespace {

// Bytes j of a nibble array of 16: weight j in the low half, weight j + 16 in the high one.
GgufQuantGroup ReadQ5_0(const uint8_t* block) {
  GgufQuantGroup out{.offset = 16, .scale = LoadU16(block), .factors = {1, 1}};
  const uint32_t upper = LoadU32(block + 2);
  for (int k = 0; k < kGroup; ++k) {
    const int nibble = k < 16 ? block[6 + k] & 15 : block[6 + k - 16] >> 4;
    out.q[k] = static_cast<uint8_t>(nibble | ((upper >> k & 1) << 4));
  }
  return out;
}

// Factor `i` of 8 and the minimum's, 6 bits each: those of the first four lie in bytes i and i + 4, of the others the
// low four bits lie in byte i + 4 and the upper two on top of the first four's bytes.
void ReadFactors(const uint8_t* packed, int i, GgufQuantGroup* out) {
  int factor, minimum;
  if (i < 4) {
    factor = packed[i] & 63;
    minimum = packed[i + 4] & 63;
  } else {
    factor = (packed[i + 4] & 15) | packed[i - 4] >> 6 << 4;
    minimum = packed[i + 4] >> 4 | packed[i] >> 6 << 4;
  }
  out->factors[0] = out->factors[1] = static_cast<int8_t>(factor);
  out->minimum_factor = static_cast<uint8_t>(minimum);
}

// Two groups share 32 bytes: the even one has the low nibbles. Bit i of byte k of `upper` is the fifth of weight k of
// group i; null for Q4_K.
GgufQuantGroup ReadQ45K(const uint8_t* block, int i, const uint8_t* upper, const uint8_t* nibbles) {
  GgufQuantGroup out{
      .offset = 0, .scale = LoadU16(block), .minimum = static_cast<uint16_t>(LoadU16(block + 2) ^ 0x8000)};
  ReadFactors(block + 4, i, &out);
  for (int k = 0; k < kGroup; ++k) {
    const int byte = nibbles[i / 2 * 32 + k];
    const int fifth = upper == nullptr ? 0 : (upper[k] >> i & 1) << 4;
    out.q[k] = static_cast<uint8_t>((i % 2 == 0 ? byte & 15 : byte >> 4) | fifth);
  }
  return out;
}

// Halves of four groups: of groups 0 and 1 the low nibbles of 64 bytes, of 2 and 3 the high ones; the upper two bits of
// weight k of all four share a byte.
GgufQuantGroup ReadQ6_K(const uint8_t* block, int i) {
  const int part = i % 4;
  const uint8_t* const nibbles = block + i / 4 * 64 + part % 2 * 32;
  const uint8_t* const upper = block + 128 + i / 4 * 32;
  const auto* const factors = reinterpret_cast<const int8_t*>(block + 192);
  GgufQuantGroup out{.offset = 32, .scale = LoadU16(block + 208), .factors = {factors[2 * i], factors[2 * i + 1]}};
  for (int k = 0; k < kGroup; ++k) {
    const int nibble = part < 2 ? nibbles[k] & 15 : nibbles[k] >> 4;
    out.q[k] = static_cast<uint8_t>(nibble | (upper[k] >> 2 * part & 3) << 4);
  }
  return out;
}

}  // namespace

GgufQuantGroup ReadGgufQuantGroup(WeightFormat format, const uint8_t* row, int64_t g) {
  const int i = static_cast<int>(g % kSuperGroups);
  const int64_t super = g / kSuperGroups;
  switch (format) {
    case WeightFormat::kQ5_0:
      return ReadQ5_0(row + 22 * g);
    case WeightFormat::kQ4_K:
      return ReadQ45K(row + 144 * super, i, nullptr, row + 144 * super + 16);
    case WeightFormat::kQ5_K:
      return ReadQ45K(row + 176 * super, i, row + 176 * super + 16, row + 176 * super + 48);
    case WeightFormat::kQ6_K:
      return ReadQ6_K(row + 210 * super, i);
    default:
      BATON_CHECK(false) << "weight format " << static_cast<int>(format);
      return {};
  }
}

}  // namespace baton::engine::kernels
