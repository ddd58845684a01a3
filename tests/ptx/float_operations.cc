// Arithmetic of f32 and f64. launch.h says what .approx gives.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/ptx/decoder.h"
#include "tests/ptx/integer_operations.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

struct AddFloat {
  template <class T>
  static T Do(T a, T b, bool) {
    return a + b;
  }
};
struct SubFloat {
  template <class T>
  static T Do(T a, T b, bool) {
    return a - b;
  }
};
struct MulFloat {
  template <class T>
  static T Do(T a, T b, bool) {
    return a * b;
  }
};
struct DivFloat {
  template <class T>
  static T Do(T a, T b, bool) {
    return a / b;
  }
};
// The flag of min and max is .NaN: a NaN operand gives NaN, else the other operand.
struct MinFloat {
  template <class T>
  static T Do(T a, T b, bool nan) {
    if (std::isnan(a) || std::isnan(b)) return nan || (std::isnan(a) && std::isnan(b)) ? a + b : std::isnan(a) ? b : a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct MaxFloat {
  template <class T>
  static T Do(T a, T b, bool nan) {
    if (std::isnan(a) || std::isnan(b)) return nan || (std::isnan(a) && std::isnan(b)) ? a + b : std::isnan(a) ? b : a;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  }
};
struct FmaFloat {
  template <class T>
  static T Do(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct NegFloat {
  template <class T>
  static T Do(T a) {
    return -a;
  }
};
struct AbsFloat {
  template <class T>
  static T Do(T a) {
    return std::abs(a);
  }
};
struct RcpFloat {
  template <class T>
  static T Do(T a) {
    return T{1} / a;
  }
};
struct SqrtFloat {
  template <class T>
  static T Do(T a) {
    return std::sqrt(a);
  }
};
// Approximations: double, rounded.
struct RsqrtFloat {
  template <class T>
  static T Do(T a) {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
  }
};
struct SinFloat {
  static float Do(float a) { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct CosFloat {
  static float Do(float a) { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct Lg2Float {
  static float Do(float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct Ex2Float {
  static float Do(float a) { return static_cast<float>(std::exp2(static_cast<double>(a))); }
};
struct TanhFloat {
  static float Do(float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};

template <class T>
T Before(T value, uint32_t flags) {
  if constexpr (std::is_same_v<T, float>) {
    if ((flags & kFtz) != 0) return Flush(value);
  }
  return value;
}

template <class T>
uint64_t After(T value, uint32_t flags) {
  if ((flags & kSat) != 0) value = std::isnan(value) ? T{0} : std::clamp(value, T{0}, T{1});
  return ResultBits(Before(value, flags));
}

template <class T, class Op>
void FloatUnary(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  const HostRounding rounding(in.rounding);
  ForLanes(mask, [&](int lane) {
    volatile T value = Before(Value<T>(a[lane]), in.flags);
    volatile T result = Op::Do(static_cast<T>(value));
    to[lane] = After(static_cast<T>(result), in.flags);
  });
}

// neg and abs work on bits: a NaN of f64 keeps its payload.
template <class T, class Op>
void FloatSign(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = BitsOf<T>(Op::Do(Before(Value<T>(a[lane]), in.flags))); });
}

template <class T, class Op>
void FloatBinary(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  const bool nan = (in.flags & kNanPropagates) != 0;
  ForLanes(mask, [&](int lane) { to[lane] = ResultBits(Op::Do(Value<T>(a[lane]), Value<T>(b[lane]), nan)); });
}

// With .ftz, .sat or another rounding.
template <class T, class Op>
void FloatBinaryModified(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  const bool nan = (in.flags & kNanPropagates) != 0;
  const HostRounding rounding(in.rounding);
  ForLanes(mask, [&](int lane) {
    volatile T first = Before(Value<T>(a[lane]), in.flags);
    volatile T second = Before(Value<T>(b[lane]), in.flags);
    volatile T result = Op::Do(static_cast<T>(first), static_cast<T>(second), nan);
    to[lane] = After(static_cast<T>(result), in.flags);
  });
}

template <class T>
void FloatFma(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  const HostRounding rounding(in.rounding);
  ForLanes(mask, [&](int lane) {
    volatile T first = Before(Value<T>(a[lane]), in.flags);
    volatile T third = Before(Value<T>(c[lane]), in.flags);
    volatile T result = std::fma(static_cast<T>(first), Before(Value<T>(b[lane]), in.flags), static_cast<T>(third));
    to[lane] = After(static_cast<T>(result), in.flags);
  });
}

// fma.rn.f32 is most of what kernels do.
__attribute__((target("fma"))) void FmaByHardware(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const float result = __builtin_fmaf(Value<float>(a[lane]), Value<float>(b[lane]), Value<float>(c[lane]));
    to[lane] = ResultBits(result);
  }
}

template <class T, class Op>
void BinaryOperands(InstructionDecoder& decoder, Type type) {
  decoder.Count(3);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  const bool plain = (decoder.in.flags & (kFtz | kSat)) == 0 && decoder.in.rounding == Rounding::kNearest;
  decoder.in.execute = plain ? &FloatBinary<T, Op> : &FloatBinaryModified<T, Op>;
}

template <class Op>
bool DecodeBinaryFloat(InstructionDecoder& decoder, Type type) {
  decoder.TakeRounding();
  decoder.TakeFlag("ftz", kFtz);
  decoder.TakeFlag("sat", kSat);
  if (type == Type::kF32) {
    BinaryOperands<float, Op>(decoder, type);
  } else {
    BinaryOperands<double, Op>(decoder, type);
  }
  return true;
}

bool DecodeFma(InstructionDecoder& decoder, Type type) {
  decoder.TakeRounding();
  decoder.TakeFlag("ftz", kFtz);
  decoder.TakeFlag("sat", kSat);
  decoder.Count(4);
  decoder.To(0);
  for (size_t i = 1; i < 4; ++i) decoder.From(i, type);
  const bool plain = decoder.in.flags == 0 && decoder.in.rounding == Rounding::kNearest;
  const bool hardware = __builtin_cpu_supports("fma") != 0;
  decoder.in.execute = type == Type::kF64 ? &FloatFma<double> : plain && hardware ? &FmaByHardware : &FloatFma<float>;
  return true;
}

template <class Op>
Execute SignOf(Type type) {
  return PickFloat(type, [](auto zero) -> Execute { return &FloatSign<decltype(zero), Op>; });
}

// rcp, sqrt and rsqrt of either type; .approx is the same as .rn here.
template <class Op>
void DecodeRoot(InstructionDecoder& decoder) {
  if (!decoder.Take("approx")) decoder.TakeRounding();
  decoder.TakeFlag("ftz", kFtz);
  const Type type = decoder.TakeType();
  decoder.Count(2);
  decoder.To(0);
  decoder.From(1, type);
  decoder.in.execute = PickFloat(type, [](auto zero) -> Execute { return &FloatUnary<decltype(zero), Op>; });
  if (decoder.in.execute == nullptr) decoder.Fail("a root of another type");
}

template <class Op>
void DecodeFunction(InstructionDecoder& decoder) {
  if (!decoder.Take("approx")) decoder.Fail(".approx is expected");
  decoder.TakeFlag("ftz", kFtz);
  if (decoder.TakeType() != Type::kF32) decoder.Fail("a function of another type than f32");
  decoder.Count(2);
  decoder.To(0);
  decoder.From(1, Type::kF32);
  decoder.in.execute = &FloatUnary<float, Op>;
}

// copysign: the magnitude of b with the sign of a.
template <class T>
void CopySign(Warp& warp, const Instruction& in, uint32_t mask) {
  constexpr uint64_t kSign = uint64_t{1} << (8 * sizeof(T) - 1);
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = (b[lane] & (kSign - 1)) | (a[lane] & kSign); });
}

void DecodeCopySign(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  decoder.Count(3);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  decoder.in.execute = PickFloat(type, [](auto zero) -> Execute { return &CopySign<decltype(zero)>; });
  if (decoder.in.execute == nullptr) decoder.Fail("copysign of another type");
}

// testp: `extra` numbers the property.
template <class T>
void TestProperty(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint32_t bits = 0;
  ForLanes(mask, [&](int lane) {
    const int kind = std::fpclassify(Value<T>(a[lane]));
    const bool results[] = {kind != FP_NAN && kind != FP_INFINITE,
                            kind == FP_INFINITE,
                            kind != FP_NAN,
                            kind == FP_NAN,
                            kind == FP_NORMAL,
                            kind == FP_SUBNORMAL};
    bits |= uint32_t{results[in.extra]} << lane;
  });
  warp.SetPredicate(in.predicate_to[0], mask, bits);
}

void DecodeTestProperty(InstructionDecoder& decoder) {
  static constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  bool known = false;
  for (uint64_t i = 0; i < std::size(kNames); ++i) {
    if (!decoder.Take(kNames[i])) continue;
    decoder.in.extra = i;
    known = true;
  }
  if (!known) decoder.Fail("no property");
  const Type type = decoder.TakeType();
  decoder.Count(2);
  decoder.PredicateTo(decoder.operands()[0]);
  decoder.From(1, type);
  decoder.in.execute = PickFloat(type, [](auto zero) -> Execute { return &TestProperty<decltype(zero)>; });
}

}  // namespace

bool DecodeFloat(InstructionDecoder& decoder, Type type) {
  const std::string& name = decoder.opcode();
  if (name == "add") return DecodeBinaryFloat<AddFloat>(decoder, type);
  if (name == "sub") return DecodeBinaryFloat<SubFloat>(decoder, type);
  if (name == "mul") return DecodeBinaryFloat<MulFloat>(decoder, type);
  if (name == "div") {
    if (!decoder.Take("approx")) decoder.Take("full");
    return DecodeBinaryFloat<DivFloat>(decoder, type);
  }
  if (name == "min" || name == "max") {
    decoder.TakeFlag("NaN", kNanPropagates);
    return name == "min" ? DecodeBinaryFloat<MinFloat>(decoder, type) : DecodeBinaryFloat<MaxFloat>(decoder, type);
  }
  if (name == "fma" || name == "mad") return DecodeFma(decoder, type);
  if (name != "neg" && name != "abs") return false;
  decoder.TakeFlag("ftz", kFtz);
  decoder.Count(2);
  decoder.To(0);
  decoder.From(1, type);
  decoder.in.execute = name == "neg" ? SignOf<NegFloat>(type) : SignOf<AbsFloat>(type);
  return true;
}

void AddFloatOperations(DecodeTable& table) {
  table["rcp"] = &DecodeRoot<RcpFloat>;
  table["sqrt"] = &DecodeRoot<SqrtFloat>;
  table["rsqrt"] = &DecodeRoot<RsqrtFloat>;
  table["sin"] = &DecodeFunction<SinFloat>;
  table["cos"] = &DecodeFunction<CosFloat>;
  table["lg2"] = &DecodeFunction<Lg2Float>;
  table["ex2"] = &DecodeFunction<Ex2Float>;
  table["tanh"] = &DecodeFunction<TanhFloat>;
  table["copysign"] = &DecodeCopySign;
  table["testp"] = &DecodeTestProperty;
}

}  // namespace baton::ptx
