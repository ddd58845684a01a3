// and, or, xor, not, cnot, shifts, bit fields, counts, prmt, lop3.
#include <algorithm>
#include <bit>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

struct AndBits {
  template <class T>
  static T Do(T a, T b) {
    return a & b;
  }
};
struct OrBits {
  template <class T>
  static T Do(T a, T b) {
    return a | b;
  }
};
struct XorBits {
  template <class T>
  static T Do(T a, T b) {
    return a ^ b;
  }
};
struct NotBits {
  template <class T>
  static T Do(T a) {
    return static_cast<T>(~a);
  }
};
struct CNot {
  template <class T>
  static T Do(T a) {
    return a == 0 ? 1 : 0;
  }
};

template <class T>
void ShiftLeft(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const auto by = static_cast<uint32_t>(b[lane]);
    to[lane] = by >= 8 * sizeof(T) ? 0 : BitsOf<T>(static_cast<T>(Value<T>(a[lane]) << by));
  });
}

template <class T>
void ShiftRight(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const auto by = static_cast<uint32_t>(b[lane]);
    const T value = Value<T>(a[lane]);
    const T beyond = std::is_signed_v<T> && value < 0 ? static_cast<T>(-1) : T{0};
    to[lane] = BitsOf<T>(by >= 8 * sizeof(T) ? beyond : static_cast<T>(value >> by));
  });
}

// shf: `extra` bit 0 to the right, bit 1 clamped.
void FunnelShift(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* low = warp.From(in.from[0]);
  const uint64_t* high = warp.From(in.from[1]);
  const uint64_t* by = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const auto amount = static_cast<uint32_t>(by[lane]);
    const uint32_t n = (in.extra & 2) != 0 ? std::min(amount, 32U) : amount & 31;
    const uint64_t both = high[lane] << 32 | (low[lane] & 0xffffffff);
    to[lane] = static_cast<uint32_t>((in.extra & 1) != 0 ? both >> n : both >> (32 - n));
  });
}

template <class T>
void ExtractField(Warp& warp, const Instruction& in, uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const auto value = Value<U>(a[lane]);
    const uint32_t at = b[lane] & 255;
    const uint32_t length = c[lane] & 255;
    const bool fills = std::is_signed_v<T> && length != 0 && (value >> std::min(at + length - 1, kBits - 1) & 1) != 0;
    U field = at < kBits ? static_cast<U>(value >> at) : U{0};
    const uint32_t kept = at < kBits ? std::min(length, kBits - at) : 0;
    const U ones = kept >= kBits ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << kept) - 1);
    field = static_cast<U>((field & ones) | (fills ? ~ones : U{0}));
    to[lane] = field;
  });
}

template <class T>
void InsertField(Warp& warp, const Instruction& in, uint32_t mask) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  const uint64_t* d = warp.From(in.from[3]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const uint32_t at = c[lane] & 255;
    const uint32_t length = at < kBits ? std::min<uint32_t>(d[lane] & 255, kBits - at) : 0;
    const T ones = length >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T field = length == 0 ? T{0} : static_cast<T>(ones << at);
    const T shifted = length == 0 ? T{0} : static_cast<T>(Value<T>(a[lane]) << at);
    to[lane] = static_cast<T>((Value<T>(b[lane]) & ~field) | (shifted & field));
  });
}

template <class T>
void FindHighest(Warp& warp, const Instruction& in, uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    auto value = Value<U>(a[lane]);
    if (std::is_signed_v<T> && static_cast<T>(value) < 0) value = static_cast<U>(~value);
    const int leading = std::countl_zero(value);
    const int at = static_cast<int>(8 * sizeof(T)) - 1 - leading;
    to[lane] = value == 0 ? 0xffffffff : static_cast<uint32_t>(in.extra == 1 ? leading : at);
  });
}

struct CountLeading {
  template <class T>
  static T Do(T a) {
    return static_cast<T>(std::countl_zero(a));
  }
};
struct CountOnes {
  template <class T>
  static T Do(T a) {
    return static_cast<T>(std::popcount(a));
  }
};
struct Reverse {
  template <class T>
  static T Do(T a) {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) result = static_cast<T>(result << 1 | (a >> i & 1));
    return result;
  }
};

// `extra`: 0 the default, then f4e, b4e, rc8, ecl, ecr, rc16.
uint32_t Selector(uint64_t mode, uint32_t control) {
  const uint32_t c = control & 3;
  switch (mode) {
    case 1:
      return (c + 3) << 12 | (c + 2) << 8 | (c + 1) << 4 | c;
    case 2: {
      uint32_t result = 0;
      for (uint32_t i = 0; i < 4; ++i) result |= ((c - i) & 7) << (4 * i);
      return result;
    }
    case 3:
      return c * 0x1111;
    case 4:
      return std::max(c, 3U) << 12 | std::max(c, 2U) << 8 | std::max(c, 1U) << 4 | c;
    case 5:
      return c << 12 | std::min(c, 2U) << 8 | std::min(c, 1U) << 4;
    case 6:
      return (control & 1) != 0 ? 0x3232 : 0x1010;
    default:
      return control;
  }
}

void Permute(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const uint64_t bytes = (a[lane] & 0xffffffff) | b[lane] << 32;
    const uint32_t selector = Selector(in.extra, static_cast<uint32_t>(c[lane]));
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t select = selector >> (4 * i) & 15;
      auto byte = static_cast<uint32_t>(bytes >> (8 * (select & 7)) & 255);
      if ((select & 8) != 0) byte = (byte & 0x80) != 0 ? 255 : 0;
      result |= byte << (8 * i);
    }
    to[lane] = result;
  });
}

void LogicByTable(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    uint64_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
      if ((in.extra >> row & 1) == 0) continue;
      result |= ((row & 4) != 0 ? a[lane] : ~a[lane]) & ((row & 2) != 0 ? b[lane] : ~b[lane]) &
                ((row & 1) != 0 ? c[lane] : ~c[lane]);
    }
    to[lane] = static_cast<uint32_t>(result);
  });
}

// `extra`: 0 and, 1 or, 2 xor, 3 not.
void PredicateLogic(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint32_t a = warp.Bits(in.predicate_from[0]);
  const uint32_t b = warp.Bits(in.predicate_from[1]);
  const uint32_t results[] = {a & b, a | b, a ^ b, ~a};
  warp.SetPredicate(in.predicate_to[0], mask, results[in.extra]);
}

void DecodePredicateLogic(InstructionDecoder& decoder) {
  const std::string& name = decoder.opcode();
  decoder.in.extra = name == "and" ? 0 : name == "or" ? 1 : name == "xor" ? 2 : 3;
  const size_t count = name == "not" ? 2 : 3;
  decoder.Count(count);
  decoder.PredicateTo(decoder.operands()[0]);
  for (size_t i = 1; i < count; ++i) decoder.PredicateFrom(i);
  decoder.in.execute = &PredicateLogic;
}

void Operands(InstructionDecoder& decoder, Type type, size_t sources, Type others = Type::kB32) {
  decoder.Count(sources + 1);
  decoder.To(0);
  for (size_t i = 1; i <= sources; ++i) decoder.From(i, i == 1 ? type : others);
}

void DecodeLogic(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  if (type == Type::kPred) return DecodePredicateLogic(decoder);
  const std::string& name = decoder.opcode();
  const bool unary = name == "not" || name == "cnot";
  Operands(decoder, type, unary ? 1 : 2, type);
  decoder.in.execute = PickInteger(type, [&](auto zero) -> Execute {
    using T = std::make_unsigned_t<decltype(zero)>;
    if (name == "and") return &Binary<T, AndBits>;
    if (name == "or") return &Binary<T, OrBits>;
    if (name == "xor") return &Binary<T, XorBits>;
    return name == "not" ? &Unary<T, NotBits> : &Unary<T, CNot>;
  });
  if (decoder.in.execute == nullptr) decoder.Fail("logic of another type");
}

void DecodeShift(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  Operands(decoder, type, 2);
  const bool left = decoder.opcode() == "shl";
  decoder.in.execute = PickInteger(type, [&](auto zero) -> Execute {
    using T = decltype(zero);
    return left ? &ShiftLeft<T> : &ShiftRight<T>;
  });
  if (decoder.in.execute == nullptr) decoder.Fail("a shift of another type");
}

void DecodeFunnelShift(InstructionDecoder& decoder) {
  const bool right = decoder.Take("r");
  if (!right && !decoder.Take("l")) decoder.Fail("no direction");
  const bool clamp = decoder.Take("clamp");
  if (!clamp && !decoder.Take("wrap")) decoder.Fail("no mode");
  decoder.in.extra = (right ? 1 : 0) | (clamp ? 2 : 0);
  if (decoder.TakeType() != Type::kB32) decoder.Fail("a funnel shift of another type");
  Operands(decoder, Type::kB32, 3);
  decoder.in.execute = &FunnelShift;
}

void DecodeExtract(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  Operands(decoder, type, 3);
  decoder.in.execute = PickInteger(type, [](auto zero) -> Execute { return &ExtractField<decltype(zero)>; });
}

void DecodeInsert(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  decoder.Count(5);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  decoder.From(3, Type::kB32);
  decoder.From(4, Type::kB32);
  decoder.in.execute = BytesOf(type) == 8 ? &InsertField<uint64_t> : &InsertField<uint32_t>;
}

void DecodeFind(InstructionDecoder& decoder) {
  decoder.in.extra = decoder.Take("shiftamt") ? 1 : 0;
  const Type type = decoder.TakeType();
  Operands(decoder, type, 1);
  decoder.in.execute = PickInteger(type, [](auto zero) -> Execute { return &FindHighest<decltype(zero)>; });
}

void DecodeCountBits(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  Operands(decoder, type, 1);
  const std::string& name = decoder.opcode();
  auto pick = [&](auto zero) -> Execute {
    using T = decltype(zero);
    return name == "clz" ? &Unary<T, CountLeading> : name == "popc" ? &Unary<T, CountOnes> : &Unary<T, Reverse>;
  };
  if (type != Type::kB32 && type != Type::kB64) decoder.Fail("bits of another type");
  decoder.in.execute = type == Type::kB64 ? pick(uint64_t{}) : pick(uint32_t{});
}

void DecodePermute(InstructionDecoder& decoder) {
  if (decoder.TakeType() != Type::kB32) decoder.Fail("prmt of another type");
  static constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (uint64_t mode = 1; mode < std::size(kModes); ++mode) {
    if (decoder.Take(kModes[mode])) decoder.in.extra = mode;
  }
  Operands(decoder, Type::kB32, 3);
  decoder.in.execute = &Permute;
}

void DecodeLogicByTable(InstructionDecoder& decoder) {
  if (decoder.TakeType() != Type::kB32) decoder.Fail("lop3 of another type");
  decoder.Count(5);
  decoder.To(0);
  for (size_t i = 1; i < 4; ++i) decoder.From(i, Type::kB32);
  decoder.in.extra = decoder.Immediate(4);
  decoder.in.execute = &LogicByTable;
}

}  // namespace

void AddBitOperations(DecodeTable& table) {
  for (std::string_view name : {"and", "or", "xor", "not", "cnot"}) table[name] = &DecodeLogic;
  table["shl"] = table["shr"] = &DecodeShift;
  table["shf"] = &DecodeFunnelShift;
  table["bfe"] = &DecodeExtract;
  table["bfi"] = &DecodeInsert;
  table["bfind"] = &DecodeFind;
  for (std::string_view name : {"clz", "popc", "brev"}) table[name] = &DecodeCountBits;
  table["prmt"] = &DecodePermute;
  table["lop3"] = &DecodeLogicByTable;
}

}  // namespace baton::ptx
