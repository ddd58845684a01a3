// setp, set, selp, slct.
#include <cmath>
#include <utility>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
enum class Join : uint8_t { kNone, kAnd, kOr, kXor };

template <class T>
bool IsNan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <class T>
bool Compares(Compare compare, T a, T b) {
  const bool nan = IsNan(a) || IsNan(b);
  switch (compare) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return !nan && a != b;
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    case Compare::kEqu:
      return nan || a == b;
    case Compare::kNeu:
      return nan || a != b;
    case Compare::kLtu:
      return nan || a < b;
    case Compare::kLeu:
      return nan || a <= b;
    case Compare::kGtu:
      return nan || a > b;
    case Compare::kGeu:
      return nan || a >= b;
    case Compare::kNum:
      return !nan;
    case Compare::kNan:
      return nan;
  }
  return false;
}

// Of halves: as floats.
template <class T>
auto Comparable(uint64_t bits, uint32_t flags) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
    return ToFloat(Value<T>(bits));
  } else if constexpr (std::is_same_v<T, float>) {
    return (flags & kFtz) != 0 ? Flush(Value<T>(bits)) : Value<T>(bits);
  } else {
    return Value<T>(bits);
  }
}

template <class T>
uint32_t ComparedLanes(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const auto compare = static_cast<Compare>(in.extra & 255);
  uint32_t bits = 0;
  ForLanes(mask, [&](int lane) {
    bits |= uint32_t{Compares(compare, Comparable<T>(a[lane], in.flags), Comparable<T>(b[lane], in.flags))} << lane;
  });
  return bits;
}

uint32_t Joined(Join join, uint32_t bits, uint32_t other) {
  switch (join) {
    case Join::kAnd:
      return bits & other;
    case Join::kOr:
      return bits | other;
    case Join::kXor:
      return bits ^ other;
    default:
      return bits;
  }
}

template <class T>
void SetPredicate(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint32_t bits = ComparedLanes<T>(warp, in, mask);
  const auto join = static_cast<Join>(in.extra >> 8 & 255);
  const uint32_t other = warp.Bits(in.predicate_from[0]);
  warp.SetPredicate(in.predicate_to[0], mask, Joined(join, bits, other));
  if (in.predicate_destinations > 1) warp.SetPredicate(in.predicate_to[1], mask, Joined(join, ~bits, other));
}

// `offset` is what a true comparison gives.
template <class T>
void SetRegister(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto join = static_cast<Join>(in.extra >> 8 & 255);
  const uint32_t bits = Joined(join, ComparedLanes<T>(warp, in, mask), warp.Bits(in.predicate_from[0]));
  const auto yes = static_cast<uint64_t>(in.offset);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = (bits >> lane & 1) != 0 ? yes : 0; });
}

// Two halves in one register.
template <class H>
void SetPair(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const auto compare = static_cast<Compare>(in.extra & 255);
  const auto yes = static_cast<uint64_t>(in.offset);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    auto half = [&](int shift) {
      return Compares(compare, Comparable<H>(a[lane] >> shift, 0), Comparable<H>(b[lane] >> shift, 0)) ? yes : 0;
    };
    to[lane] = half(16) << 16 | half(0);
  });
}

void TakeComparison(InstructionDecoder& decoder) {
  static constexpr std::pair<std::string_view, Compare> kCompares[] = {
      {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},   {"le", Compare::kLe},
      {"gt", Compare::kGt},   {"ge", Compare::kGe},   {"lo", Compare::kLt},   {"ls", Compare::kLe},
      {"hi", Compare::kGt},   {"hs", Compare::kGe},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
      {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu}, {"geu", Compare::kGeu},
      {"num", Compare::kNum}, {"nan", Compare::kNan}};
  static constexpr std::pair<std::string_view, Join> kJoins[] = {
      {"and", Join::kAnd}, {"or", Join::kOr}, {"xor", Join::kXor}};
  bool known = false;
  for (const auto& [name, compare] : kCompares) {
    if (!decoder.Take(name)) continue;
    decoder.in.extra = static_cast<uint64_t>(compare);
    known = true;
  }
  if (!known) decoder.Fail("no comparison");
  for (const auto& [name, join] : kJoins) {
    if (decoder.Take(name)) decoder.in.extra |= static_cast<uint64_t>(join) << 8;
  }
  decoder.TakeFlag("ftz", kFtz);
}

void ComparisonOperands(InstructionDecoder& decoder, Type type) {
  decoder.Count(3, 4);
  decoder.From(1, type);
  decoder.From(2, type);
  const bool joins = decoder.in.extra >> 8 != 0;
  if (joins != (decoder.operands().size() == 4)) decoder.Fail("a joined predicate is missing or too many");
  if (joins) decoder.PredicateFrom(3);
}

void DecodeSetp(InstructionDecoder& decoder) {
  TakeComparison(decoder);
  const Type type = decoder.TakeType();
  ComparisonOperands(decoder, type);
  const Operand& to = decoder.operands()[0];
  if (to.kind == Operand::Kind::kPair) {
    decoder.PredicateTo(to.parts[0]);
    decoder.PredicateTo(to.parts[1]);
  } else {
    decoder.PredicateTo(to);
  }
  decoder.in.execute = PickNumber(type, [](auto zero) -> Execute { return &SetPredicate<decltype(zero)>; });
  if (decoder.in.execute == nullptr) decoder.Fail("no comparison of that type");
}

// What a true comparison gives in a register of that type: 1.0 or all ones. 0 for other types.
uint64_t TrueOf(Type type) {
  switch (type) {
    case Type::kF32:
      return std::bit_cast<uint32_t>(1.0F);
    case Type::kF16:
    case Type::kF16x2:
      return 0x3c00;
    case Type::kBf16:
    case Type::kBf16x2:
      return 0x3f80;
    case Type::kU16:
    case Type::kS16:
      return 0xffff;
    case Type::kU32:
    case Type::kS32:
      return 0xffffffff;
    default:
      return 0;
  }
}

void DecodeSet(InstructionDecoder& decoder) {
  TakeComparison(decoder);
  const Type to = decoder.TakeType();
  const Type type = decoder.TakeType();
  ComparisonOperands(decoder, type);
  decoder.To(0);
  decoder.in.offset = static_cast<int64_t>(TrueOf(to));
  const bool pair = type == Type::kF16x2 || type == Type::kBf16x2;
  if (pair) {
    // An integer of 32 bits has a mask for each half.
    if (BytesOf(to) != 4 || to == Type::kF32 || decoder.in.extra >> 8 != 0) decoder.Fail("set of another type");
    decoder.in.offset &= 0xffff;
    decoder.in.execute = type == Type::kF16x2 ? &SetPair<F16> : &SetPair<Bf16>;
  } else {
    decoder.in.execute = PickNumber(type, [](auto zero) -> Execute { return &SetRegister<decltype(zero)>; });
  }
  const bool lone_to_pair = !pair && (to == Type::kF16x2 || to == Type::kBf16x2);
  if (TrueOf(to) == 0 || lone_to_pair || decoder.in.execute == nullptr) decoder.Fail("set of another type");
}

void Select(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint32_t bits = warp.Bits(in.predicate_from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = (bits >> lane & 1) != 0 ? a[lane] : b[lane]; });
}

void DecodeSelect(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  decoder.Count(4);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  decoder.PredicateFrom(3);
  decoder.in.execute = &Select;
}

// slct: a where c >= 0, else b. `extra` is 1 for a float c.
void SelectBySign(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const bool first = in.extra == 1 ? Value<float>(c[lane]) >= 0 : Value<int32_t>(c[lane]) >= 0;
    to[lane] = first ? a[lane] : b[lane];
  });
}

void DecodeSelectBySign(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  const Type by = decoder.TakeType();
  if (by != Type::kF32 && by != Type::kS32) decoder.Fail("slct by another type");
  decoder.in.extra = by == Type::kF32 ? 1 : 0;
  decoder.Count(4);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  decoder.From(3, by);
  decoder.in.execute = &SelectBySign;
}

}  // namespace

void AddComparisons(DecodeTable& table) {
  table["setp"] = &DecodeSetp;
  table["set"] = &DecodeSet;
  table["selp"] = &DecodeSelect;
  table["slct"] = &DecodeSelectBySign;
}

}  // namespace baton::ptx
