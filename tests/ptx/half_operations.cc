// Arithmetic of f16 and bf16, single and packed in pairs, and the opcodes that all types share.
#include <algorithm>
#include <cmath>

#include "tests/ptx/decoder.h"
#include "tests/ptx/integer_operations.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

enum class HalfOp : uint8_t { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kEx2, kTanh };

template <class H>
H RoundHalf(double value) {
  if constexpr (std::is_same_v<H, F16>) {
    return ToF16(value);
  } else {
    return ToBf16(value);
  }
}

// In double every sum and product of halves is exact or, for fma, rounded to odd; one rounding follows.
template <class H>
double HalfResult(HalfOp op, double a, double b, double c, bool nan) {
  switch (op) {
    case HalfOp::kAdd:
      return FmaToOdd(a, 1, b);
    case HalfOp::kSub:
      return FmaToOdd(a, 1, -b);
    case HalfOp::kMul:
      return a * b;
    case HalfOp::kFma:
      return FmaToOdd(a, b, c);
    case HalfOp::kMin:
    case HalfOp::kMax:
      if (std::isnan(a) || std::isnan(b)) return nan ? a + b : std::isnan(a) ? b : a;
      if (a == b) return std::signbit(a) == (op == HalfOp::kMin) ? a : b;
      return (a < b) == (op == HalfOp::kMin) ? a : b;
    case HalfOp::kEx2:
      return std::exp2(a);
    case HalfOp::kTanh:
      return std::tanh(a);
    default:
      return a;
  }
}

template <class H>
uint16_t HalfDo(const Instruction& in, uint16_t a, uint16_t b, uint16_t c) {
  const auto op = static_cast<HalfOp>(in.extra);
  if (op == HalfOp::kNeg) return a ^ 0x8000;
  if (op == HalfOp::kAbs) return a & 0x7fff;
  auto value = [&](uint16_t bits) {
    const double number = ToFloat(H{bits});
    const bool flush = (in.flags & kFtz) != 0 && std::is_same_v<H, F16> && std::abs(number) < 0x1p-14;
    return flush ? std::copysign(0.0, number) : number;
  };
  double result = HalfResult<H>(op, value(a), value(b), value(c), (in.flags & kNanPropagates) != 0);
  if ((in.flags & kSat) != 0) result = std::isnan(result) ? 0 : std::clamp(result, 0.0, 1.0);
  if ((in.flags & kRelu) != 0 && result < 0) result = 0;
  H rounded = RoundHalf<H>(result);
  const bool subnormal = (rounded.bits & 0x7c00) == 0;
  if ((in.flags & kFtz) != 0 && std::is_same_v<H, F16> && subnormal) rounded.bits &= 0x8000;
  return rounded.bits;
}

template <class H, bool kPacked>
void Half(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = in.sources > 1 ? warp.From(in.from[1]) : a;
  const uint64_t* c = in.sources > 2 ? warp.From(in.from[2]) : a;
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    uint64_t result =
        HalfDo<H>(in, static_cast<uint16_t>(a[lane]), static_cast<uint16_t>(b[lane]), static_cast<uint16_t>(c[lane]));
    if constexpr (kPacked) {
      result |= uint64_t{HalfDo<H>(in, static_cast<uint16_t>(a[lane] >> 16), static_cast<uint16_t>(b[lane] >> 16),
                                   static_cast<uint16_t>(c[lane] >> 16))}
                << 16;
    }
    to[lane] = result;
  });
}

Execute PickHalf(Type type) {
  switch (type) {
    case Type::kF16:
      return &Half<F16, false>;
    case Type::kBf16:
      return &Half<Bf16, false>;
    case Type::kF16x2:
      return &Half<F16, true>;
    case Type::kBf16x2:
      return &Half<Bf16, true>;
    default:
      return nullptr;
  }
}

void DecodeArithmetic(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  bool known = false;
  if (type == Type::kF32 || type == Type::kF64) {
    known = DecodeFloat(decoder, type);
  } else if (PickHalf(type) != nullptr) {
    known = DecodeHalf(decoder, type);
  } else if (type != Type::kPred && type != Type::kTf32) {
    known = DecodeInteger(decoder, type);
  }
  if (!known) decoder.Fail("not an instruction of that type");
}

}  // namespace

bool DecodeHalf(InstructionDecoder& decoder, Type type) {
  static constexpr std::pair<std::string_view, HalfOp> kOps[] = {
      {"add", HalfOp::kAdd}, {"sub", HalfOp::kSub}, {"mul", HalfOp::kMul}, {"fma", HalfOp::kFma},
      {"min", HalfOp::kMin}, {"max", HalfOp::kMax}, {"neg", HalfOp::kNeg}, {"abs", HalfOp::kAbs}};
  const auto* found =
      std::find_if(std::begin(kOps), std::end(kOps), [&](auto& op) { return op.first == decoder.opcode(); });
  if (found == std::end(kOps)) return false;
  const HalfOp op = found->second;
  decoder.in.extra = static_cast<uint64_t>(op);
  decoder.Take("rn");
  decoder.TakeFlag("ftz", kFtz);
  decoder.TakeFlag("sat", kSat);
  if (op == HalfOp::kFma) decoder.TakeFlag("relu", kRelu);
  if (op == HalfOp::kMin || op == HalfOp::kMax) decoder.TakeFlag("NaN", kNanPropagates);
  const size_t count = op == HalfOp::kFma ? 4 : op == HalfOp::kNeg || op == HalfOp::kAbs ? 2 : 3;
  decoder.Count(count);
  decoder.To(0);
  for (size_t i = 1; i < count; ++i) decoder.From(i, type);
  decoder.in.execute = PickHalf(type);
  return true;
}

void AddHalfOperations(DecodeTable& table) {
  for (std::string_view name : {"add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "neg", "abs", "sad"}) {
    table[name] = &DecodeArithmetic;
  }
}

// ex2 and tanh of halves share their names with f32's.
void AddMixedOperations(DecodeTable& table) {
  static const Decode kFloatEx2 = table.at("ex2");
  static const Decode kFloatTanh = table.at("tanh");
  table["ex2"] = table["tanh"] = [](InstructionDecoder& decoder) {
    const bool ex2 = decoder.opcode() == "ex2";
    const auto& all = decoder.modifiers;
    const auto half = std::find_if(all.begin(), all.end(), [](auto& one) { return PickHalf(TypeOf(one)) != nullptr; });
    if (half == all.end()) return (ex2 ? kFloatEx2 : kFloatTanh)(decoder);
    const Type type = decoder.TakeType();
    if (!decoder.Take("approx")) decoder.Fail(".approx is expected");
    decoder.TakeFlag("ftz", kFtz);
    decoder.in.extra = static_cast<uint64_t>(ex2 ? HalfOp::kEx2 : HalfOp::kTanh);
    decoder.Count(2);
    decoder.To(0);
    decoder.From(1, type);
    decoder.in.execute = PickHalf(type);
  };
}

}  // namespace baton::ptx
