// ldmatrix and mma.sync. launch.h says how mma sums. Fragments are those of the PTX ISA: with g = lane / 4 and
// t = lane % 4, a register of A or B holds the elements that are `width` neighbours in k.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/memory_operations.h"

namespace baton::ptx {
namespace {

constexpr int kRows = 16;
constexpr int kColumns = 8;
constexpr int kMostDepth = 32;

// Lane 8 m + r gives the address of row r of matrix m.
void LoadMatrix(Warp& warp, const Instruction& in, uint32_t mask) {
  uint16_t elements[4][8][8] = {};
  const uint64_t* base = warp.From(in.from[0]);
  for (int lane = 0; lane < 8 * in.count; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint8_t* row = warp.Read(in, EffectiveAddress(in, base[lane]), 16, lane);
    if (row != nullptr) std::memcpy(elements[lane / 8][lane % 8], row, 16);
  }
  const bool transposed = (in.flags & kTransposed) != 0;
  for (int matrix = 0; matrix < in.count; ++matrix) {
    uint64_t* to = warp.To(in.to[matrix]);
    ForLanes(mask, [&](int lane) {
      const int g = lane / 4;
      const int t = lane % 4;
      const auto& of = elements[matrix];
      const uint32_t low = transposed ? of[2 * t][g] : of[g][2 * t];
      const uint32_t high = transposed ? of[2 * t + 1][g] : of[g][2 * t + 1];
      to[lane] = high << 16 | low;
    });
  }
}

void DecodeLoadMatrix(InstructionDecoder& decoder) {
  for (std::string_view word : {"sync", "aligned", "m8n8"}) {
    if (!decoder.Take(word)) decoder.Fail("a kind of ldmatrix that is not known");
  }
  decoder.in.count = decoder.Take("x1") ? 1 : decoder.Take("x2") ? 2 : decoder.Take("x4") ? 4 : 0;
  decoder.TakeFlag("trans", kTransposed);
  if (TakeMemorySpace(decoder) != Space::kShared || decoder.TakeType() != Type::kB16 || decoder.in.count == 0) {
    decoder.Fail("a kind of ldmatrix that is not known");
  }
  decoder.Count(2);
  decoder.Address(1, Space::kShared);
  const auto parts = InstructionDecoder::Parts(decoder.operands()[0]);
  if (parts.size() != decoder.in.count) decoder.Fail("a vector of another length");
  for (const Operand& part : parts) decoder.ToOperand(part);
  decoder.WholeWarp();
  decoder.in.execute = &LoadMatrix;
}

// Where a register of a lane lies in A (row, first k) and in B (first k of column g).
struct Shape {
  int depth;
  // Elements of a register.
  int width;
  int a_registers;
  int b_registers;
};

// The k of element 0 of the pair of registers `half`: the second half of k follows the first.
int FirstDepth(const Shape& shape, int t, int half) { return t * shape.width + half * 4 * shape.width; }

template <class T, class Get>
void Gather(Warp& warp, const Instruction& in, const Shape& shape, Get get, T (&a)[kRows][kMostDepth],
            T (&b)[kMostDepth][kColumns]) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int i = 0; i < shape.a_registers; ++i) {
      const uint64_t word = warp.From(in.from[i])[lane];
      for (int e = 0; e < shape.width; ++e) a[g + i % 2 * 8][FirstDepth(shape, t, i / 2) + e] = get(word, e, true);
    }
    for (int i = 0; i < shape.b_registers; ++i) {
      const uint64_t word = warp.From(in.from[shape.a_registers + i])[lane];
      for (int e = 0; e < shape.width; ++e) b[FirstDepth(shape, t, i) + e][g] = get(word, e, false);
    }
  }
}

// C and D: registers 0 and 1 are columns 2 t and 2 t + 1 of row g, registers 2 and 3 those of row g + 8.
template <class T>
void LoadSums(Warp& warp, const Instruction& in, int first, T (&c)[kRows][kColumns]) {
  for (int i = 0; i < 4; ++i) {
    const uint64_t* from = warp.From(in.from[first + i]);
    for (int lane = 0; lane < kLanes; ++lane) c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = Value<T>(from[lane]);
  }
}

template <class T>
void StoreSums(Warp& warp, const Instruction& in, const T (&c)[kRows][kColumns]) {
  for (int i = 0; i < 4; ++i) {
    uint64_t* to = warp.To(in.to[i]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const T value = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
      if constexpr (std::is_same_v<T, float>) {
        to[lane] = ResultBits(value);
      } else {
        to[lane] = BitsOf(value);
      }
    }
  }
}

// Every product is exact and enters the sum with one rounding, k in ascending order.
#define BATON_PTX_MULTIPLY_BODY                                                                     \
  for (int row = 0; row < kRows; ++row) {                                                           \
    for (int k = 0; k < depth; ++k) {                                                               \
      for (int n = 0; n < kColumns; ++n) c[row][n] = __builtin_fmaf(a[row][k], b[k][n], c[row][n]); \
    }                                                                                               \
  }

__attribute__((target("avx2,fma"))) void MultiplyByHardware(int depth, const float (&a)[kRows][kMostDepth],
                                                            const float (&b)[kMostDepth][kColumns],
                                                            float (&c)[kRows][kColumns]) {
  BATON_PTX_MULTIPLY_BODY
}

void MultiplyPortably(int depth, const float (&a)[kRows][kMostDepth], const float (&b)[kMostDepth][kColumns],
                      float (&c)[kRows][kColumns]) {
  BATON_PTX_MULTIPLY_BODY
}
#undef BATON_PTX_MULTIPLY_BODY

// f16, bf16 and tf32, whose last 13 bits are ignored.
template <class H>
void MultiplyFloats(Warp& warp, const Instruction& in, uint32_t) {
  static const bool kHardware = __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("avx2") != 0;
  constexpr bool kTf32 = std::is_same_v<H, float>;
  constexpr int kWidth = kTf32 ? 1 : 2;
  const int depth = static_cast<int>(in.extra);
  const Shape shape = {depth, kWidth, depth / (2 * kWidth), depth / (4 * kWidth)};
  float a[kRows][kMostDepth];
  float b[kMostDepth][kColumns];
  float c[kRows][kColumns];
  Gather(
      warp, in, shape,
      [](uint64_t word, int e, bool) {
        if constexpr (kTf32) {
          return Value<float>(word & 0xffffe000);
        } else {
          return ToFloat(Value<H>(word >> (16 * e)));
        }
      },
      a, b);
  LoadSums(warp, in, shape.a_registers + shape.b_registers, c);
  (kHardware ? MultiplyByHardware : MultiplyPortably)(depth, a, b, c);
  StoreSums(warp, in, c);
}

// s8 and u8: `offset` has bit 0 where A is signed, bit 1 where B is. Sums wrap, or with .satfinite saturate at the end.
void MultiplyIntegers(Warp& warp, const Instruction& in, uint32_t) {
  const int depth = static_cast<int>(in.extra);
  const Shape shape = {depth, 4, depth / 8, depth / 16};
  int32_t a[kRows][kMostDepth];
  int32_t b[kMostDepth][kColumns];
  int32_t c[kRows][kColumns];
  const int64_t is_signed = in.offset;
  Gather(
      warp, in, shape,
      [&](uint64_t word, int e, bool of_a) -> int32_t {
        const auto byte = static_cast<uint8_t>(word >> (8 * e));
        return (is_signed & (of_a ? 1 : 2)) != 0 ? static_cast<int8_t>(byte) : byte;
      },
      a, b);
  LoadSums(warp, in, shape.a_registers + shape.b_registers, c);
  for (int row = 0; row < kRows; ++row) {
    for (int n = 0; n < kColumns; ++n) {
      int64_t sum = c[row][n];
      for (int k = 0; k < depth; ++k) sum += int64_t{a[row][k]} * b[k][n];
      if ((in.flags & kSat) != 0)
        sum = std::min<int64_t>(std::max<int64_t>(sum, std::numeric_limits<int32_t>::min()),
                                std::numeric_limits<int32_t>::max());
      c[row][n] = static_cast<int32_t>(sum);
    }
  }
  StoreSums(warp, in, c);
}

void MatrixOperands(InstructionDecoder& decoder, const Shape& shape) {
  decoder.Count(4);
  const size_t lengths[] = {4, static_cast<size_t>(shape.a_registers), static_cast<size_t>(shape.b_registers), 4};
  for (size_t i = 0; i < 4; ++i) {
    const auto parts = InstructionDecoder::Parts(decoder.operands()[i]);
    if (parts.size() != lengths[i]) return decoder.Fail("a fragment of another length");
    for (const Operand& part : parts) {
      if (i == 0) {
        decoder.ToOperand(part);
      } else {
        decoder.FromOperand(part, i == 3 ? Type::kF32 : Type::kB32);
      }
    }
  }
}

void DecodeMultiply(InstructionDecoder& decoder) {
  for (std::string_view word : {"sync", "aligned", "row", "col"}) {
    if (!decoder.Take(word)) decoder.Fail("a kind of mma that is not known");
  }
  int depth = 0;
  static constexpr std::pair<std::string_view, int> kShapes[] = {
      {"m16n8k4", 4}, {"m16n8k8", 8}, {"m16n8k16", 16}, {"m16n8k32", 32}};
  for (const auto& [name, k] : kShapes) {
    if (decoder.Take(name)) depth = k;
  }
  const Type d = decoder.TakeType();
  const Type a = decoder.TakeType();
  const Type b = decoder.TakeType();
  const Type c = decoder.TakeType();
  decoder.in.extra = static_cast<uint64_t>(depth);
  decoder.WholeWarp();
  const bool halves = (a == Type::kF16 || a == Type::kBf16) && (depth == 8 || depth == 16);
  const bool tf32 = a == Type::kTf32 && (depth == 4 || depth == 8);
  const bool bytes = BytesOf(a) == 1 && BytesOf(b) == 1 && (depth == 16 || depth == 32);
  if ((halves || tf32) && a == b && d == Type::kF32 && c == Type::kF32) {
    const int width = tf32 ? 1 : 2;
    decoder.in.execute = tf32 ? &MultiplyFloats<float> : a == Type::kF16 ? &MultiplyFloats<F16> : &MultiplyFloats<Bf16>;
    MatrixOperands(decoder, {depth, width, depth / (2 * width), depth / (4 * width)});
  } else if (bytes && d == Type::kS32 && c == Type::kS32) {
    decoder.TakeFlag("satfinite", kSat);
    decoder.in.offset = (IsSigned(a) ? 1 : 0) | (IsSigned(b) ? 2 : 0);
    decoder.in.execute = &MultiplyIntegers;
    MatrixOperands(decoder, {depth, 4, depth / 8, depth / 16});
  } else {
    decoder.Fail("a kind of mma that is not known");
  }
}

}  // namespace

void AddMatrixOperations(DecodeTable& table) {
  table["ldmatrix"] = &DecodeLoadMatrix;
  table["mma"] = &DecodeMultiply;
}

}  // namespace baton::ptx
