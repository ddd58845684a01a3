// Templates of instructions that work on each lane by itself, and the choice of one by type.
#ifndef BATON_TESTS_PTX_LANES_H_
#define BATON_TESTS_PTX_LANES_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/ptx/number_formats.h"
#include "tests/ptx/types.h"
#include "tests/ptx/warp.h"

namespace baton::ptx {

template <class T>
inline T Value(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    return T{static_cast<uint16_t>(bits)};
  }
}

template <class T>
inline uint64_t BitsOf(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value.bits;
  }
}

// The result of arithmetic in f32: every NaN is the canonical one.
inline uint64_t ResultBits(float value) { return std::isnan(value) ? kNanF32 : std::bit_cast<uint32_t>(value); }
inline uint64_t ResultBits(double value) { return std::bit_cast<uint64_t>(value); }

template <class T, class Op>
void Unary(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = BitsOf<T>(Op::Do(Value<T>(a[lane]))); });
}

template <class T, class Op>
void Binary(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = BitsOf<T>(Op::Do(Value<T>(a[lane]), Value<T>(b[lane]))); });
}

template <class T, class Op>
void Ternary(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask,
           [&](int lane) { to[lane] = BitsOf<T>(Op::Do(Value<T>(a[lane]), Value<T>(b[lane]), Value<T>(c[lane]))); });
}

// Calls f with a value of the C++ type; null for other types. Untyped bits are unsigned.
template <class F>
Execute PickInteger(Type type, F f) {
  switch (type) {
    case Type::kB8:
    case Type::kU8:
      return f(uint8_t{});
    case Type::kS8:
      return f(int8_t{});
    case Type::kB16:
    case Type::kU16:
      return f(uint16_t{});
    case Type::kS16:
      return f(int16_t{});
    case Type::kB32:
    case Type::kU32:
      return f(uint32_t{});
    case Type::kS32:
      return f(int32_t{});
    case Type::kB64:
    case Type::kU64:
      return f(uint64_t{});
    case Type::kS64:
      return f(int64_t{});
    default:
      return nullptr;
  }
}

// The same for types of floats too.
template <class F>
Execute PickNumber(Type type, F f) {
  switch (type) {
    case Type::kF16:
      return f(F16{});
    case Type::kBf16:
      return f(Bf16{});
    case Type::kF32:
      return f(float{});
    case Type::kF64:
      return f(double{});
    default:
      return PickInteger(type, f);
  }
}

template <class F>
Execute PickFloat(Type type, F f) {
  return type == Type::kF32 ? f(float{}) : type == Type::kF64 ? f(double{}) : nullptr;
}

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_LANES_H_
