// cvt.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

// In Instruction::extra: a float is rounded to an integer in the direction of `rounding`.
constexpr uint64_t kToIntegral = 1;

template <class T>
constexpr bool kIsFloat = !std::is_integral_v<T>;

double RoundIntegral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

template <class T>
double Widen(T value, uint32_t flags) {
  if constexpr (std::is_same_v<T, float>) {
    return (flags & kFtz) != 0 ? Flush(value) : value;
  } else if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return ToFloat(value);
  }
}

template <class D>
D IntegerOf(double value, Rounding rounding) {
  if (std::isnan(value)) return 0;
  const double whole = RoundIntegral(value, rounding);
  // The upper bound is one beyond the greatest value, which double may not hold.
  const double beyond = std::ldexp(1.0, std::numeric_limits<D>::digits);
  if (whole >= beyond) return std::numeric_limits<D>::max();
  if (whole < static_cast<double>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
  return static_cast<D>(whole);
}

template <class D>
uint64_t FloatBitsOf(double value, const Instruction& in) {
  if ((in.flags & kSat) != 0) value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
  if ((in.flags & kRelu) != 0 && value < 0) value = 0;
  if constexpr (std::is_same_v<D, double>) {
    return BitsOf(value);
  } else if constexpr (std::is_same_v<D, float>) {
    if (std::isnan(value)) return kNanF32;
    const auto bits = in.rounding == Rounding::kNearest ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                                        : RoundTo(value, 8, 23, in.rounding);
    return (in.flags & kFtz) != 0 ? BitsOf(Flush(Value<float>(bits))) : bits;
  } else if constexpr (std::is_same_v<D, F16>) {
    return ToF16(value, in.rounding).bits;
  } else {
    return ToBf16(value, in.rounding).bits;
  }
}

template <class S>
uint64_t FloatOfInteger(S value, const Instruction& in, float) {
  if (in.rounding == Rounding::kNearest && (in.flags & kSat) == 0) return BitsOf(static_cast<float>(value));
  const HostRounding rounding(in.rounding);
  volatile S source = value;
  volatile auto result = static_cast<float>(source);
  return FloatBitsOf<float>(result, in);
}
template <class S>
uint64_t FloatOfInteger(S value, const Instruction& in, double) {
  const HostRounding rounding(in.rounding);
  volatile S source = value;
  volatile auto result = static_cast<double>(source);
  return FloatBitsOf<double>(result, in);
}
template <class S, class H>
uint64_t FloatOfInteger(S value, const Instruction& in, H) {
  return FloatBitsOf<H>(static_cast<double>(value), in);
}

template <class D, class S>
uint64_t ConvertInteger(S value, bool saturates) {
  if (!saturates) return static_cast<uint64_t>(static_cast<int64_t>(value));
  using Limits = std::numeric_limits<D>;
  if (std::cmp_less(value, Limits::min())) return BitsOf(Limits::min());
  if (std::cmp_greater(value, Limits::max())) return BitsOf(Limits::max());
  return BitsOf(static_cast<D>(value));
}

template <class S, class D>
void Convert(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  const uint64_t bits = in.to_mask;
  ForLanes(mask, [&](int lane) {
    const S value = Value<S>(a[lane]);
    if constexpr (kIsFloat<S> && kIsFloat<D>) {
      double number = Widen(value, in.flags);
      if (in.extra == kToIntegral) number = RoundIntegral(number, in.rounding);
      to[lane] = FloatBitsOf<D>(number, in);
    } else if constexpr (kIsFloat<S>) {
      const D result = IntegerOf<D>(Widen(value, in.flags), in.rounding);
      to[lane] = static_cast<uint64_t>(static_cast<int64_t>(result)) & bits;
    } else if constexpr (kIsFloat<D>) {
      to[lane] = FloatOfInteger(value, in, D{});
    } else {
      // Narrowed to D, then extended by its sign to the register.
      const auto narrow = static_cast<D>(ConvertInteger<D>(value, (in.flags & kSat) != 0));
      to[lane] = static_cast<uint64_t>(static_cast<int64_t>(narrow)) & bits;
    }
  });
}

template <class H>
void ConvertPair(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* high = warp.From(in.from[0]);
  const uint64_t* low = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  const bool plain = in.rounding == Rounding::kNearest && (in.flags & (kRelu | kSat)) == 0;
  ForLanes(mask, [&](int lane) {
    const auto h = Value<float>(high[lane]);
    const auto l = Value<float>(low[lane]);
    if (std::is_same_v<H, Bf16> && plain) {
      to[lane] = uint32_t{NearestBf16(h).bits} << 16 | NearestBf16(l).bits;
    } else {
      to[lane] = FloatBitsOf<H>(h, in) << 16 | FloatBitsOf<H>(l, in);
    }
  });
}

void ConvertToTf32(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    double value = Value<float>(a[lane]);
    if ((in.flags & kRelu) != 0 && value < 0) value = 0;
    to[lane] = std::isnan(value) ? kNanF32 : uint64_t{RoundTo(value, 8, 10, in.rounding)} << 13;
  });
}

// rni, rzi, rmi, rpi.
bool TakeIntegerRounding(InstructionDecoder& decoder) {
  static constexpr std::pair<std::string_view, Rounding> kModes[] = {
      {"rni", Rounding::kNearest}, {"rzi", Rounding::kZero}, {"rmi", Rounding::kDown}, {"rpi", Rounding::kUp}};
  for (const auto& [name, mode] : kModes) {
    if (!decoder.Take(name)) continue;
    decoder.in.rounding = mode;
    return true;
  }
  return false;
}

void DecodePair(InstructionDecoder& decoder, Type to, Type from) {
  if (from != Type::kF32) decoder.Fail("pairs are made of f32");
  decoder.Count(3);
  decoder.To(0);
  decoder.From(1, from);
  decoder.From(2, from);
  decoder.in.execute = to == Type::kF16x2 ? &ConvertPair<F16> : &ConvertPair<Bf16>;
}

void DecodeConvert(InstructionDecoder& decoder) {
  decoder.TakeRounding();
  const bool to_integral = TakeIntegerRounding(decoder);
  decoder.TakeFlag("ftz", kFtz);
  decoder.TakeFlag("sat", kSat);
  decoder.TakeFlag("relu", kRelu);
  if (to_integral) decoder.in.extra = kToIntegral;
  const Type to = decoder.TakeType();
  const Type from = decoder.TakeType();
  if (to == Type::kF16x2 || to == Type::kBf16x2) return DecodePair(decoder, to, from);
  decoder.Count(2);
  decoder.To(0);
  decoder.From(1, from);
  if (to == Type::kTf32) {
    if (from != Type::kF32) decoder.Fail("tf32 is made of f32");
    decoder.in.execute = &ConvertToTf32;
    return;
  }
  if (decoder.in.rounding == Rounding::kNearestAway) decoder.Fail(".rna is for tf32");
  decoder.in.execute = PickNumber(from, [&](auto source) -> Execute {
    return PickNumber(to, [&](auto target) -> Execute { return &Convert<decltype(source), decltype(target)>; });
  });
  if (decoder.in.execute == nullptr) decoder.Fail("no conversion between these types");
}

}  // namespace

void AddConversions(DecodeTable& table) { table["cvt"] = &DecodeConvert; }

}  // namespace baton::ptx
