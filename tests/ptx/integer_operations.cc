// add, sub, mul, mad, div, rem, abs, neg, min, max, sad and dp4a of integers.
#include "tests/ptx/integer_operations.h"

#include <algorithm>
#include <limits>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
constexpr auto Double(T value) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return static_cast<Wide>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<int64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

struct AddInteger {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct SubInteger {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct AddSaturated {
  static int32_t Do(int32_t a, int32_t b) {
    return static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{a} + b, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
};
struct SubSaturated {
  static int32_t Do(int32_t a, int32_t b) {
    return static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{a} - b, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
};
struct MulLow {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MulHigh {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>((Double(a) * Double(b)) >> (8 * sizeof(T)));
  }
};
struct MadLow {
  template <class T>
  static T Do(T a, T b, T c) {
    return AddInteger::Do(MulLow::Do(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  static T Do(T a, T b, T c) {
    return AddInteger::Do(MulHigh::Do(a, b), c);
  }
};
struct DivInteger {
  template <class T>
  static T Do(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return SubInteger::Do(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct RemInteger {
  template <class T>
  static T Do(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct NegInteger {
  template <class T>
  static T Do(T a) {
    return SubInteger::Do(T{0}, a);
  }
};
struct AbsInteger {
  template <class T>
  static T Do(T a) {
    return a < 0 ? SubInteger::Do(T{0}, a) : a;
  }
};
struct MinInteger {
  template <class T>
  static T Do(T a, T b) {
    return std::min(a, b);
  }
};
struct MaxInteger {
  template <class T>
  static T Do(T a, T b) {
    return std::max(a, b);
  }
};
struct Sad {
  template <class T>
  static T Do(T a, T b, T c) {
    return AddInteger::Do(c, a < b ? SubInteger::Do(b, a) : SubInteger::Do(a, b));
  }
};

// mul.wide and mad.wide: the result has twice the width.
template <class T>
void Wide(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = in.sources > 2 ? warp.From(in.from[2]) : nullptr;
  uint64_t* to = warp.To(in.to[0]);
  const uint64_t bits = in.to_mask;
  ForLanes(mask, [&](int lane) {
    const auto product = static_cast<uint64_t>(Double(Value<T>(a[lane])) * Double(Value<T>(b[lane])));
    to[lane] = (product + (c != nullptr ? c[lane] : 0)) & bits;
  });
}

// add, sub and mad of the carry chain. `extra`: 0 add, 1 sub, 2 mad.lo, 3 mad.hi.
template <class T>
void WithCarry(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = in.sources > 2 ? warp.From(in.from[2]) : nullptr;
  uint64_t* to = warp.To(in.to[0]);
  const bool subtracts = in.extra == 1;
  uint32_t carry = 0;
  ForLanes(mask, [&](int lane) {
    T first = Value<T>(a[lane]);
    T second = Value<T>(b[lane]);
    if (in.extra >= 2) {
      first = in.extra == 2 ? MulLow::Do(first, second) : MulHigh::Do(first, second);
      second = Value<T>(c[lane]);
    }
    const T old = (in.flags & kCarryIn) != 0 ? static_cast<T>(warp.carry >> lane & 1) : T{0};
    unsigned __int128 sum = first;
    sum = subtracts ? sum - second - old : sum + second + old;
    to[lane] = static_cast<T>(sum);
    carry |= static_cast<uint32_t>(sum >> (8 * sizeof(T)) & 1) << lane;
  });
  if ((in.flags & kCarryOut) != 0) warp.carry = (warp.carry & ~mask) | carry;
}

void DecodeCarry(InstructionDecoder& decoder, uint64_t operation) {
  decoder.in.extra = operation;
  const Type type = decoder.TakeType();
  const size_t count = operation >= 2 ? 4 : 3;
  decoder.Count(count);
  decoder.To(0);
  for (size_t i = 1; i < count; ++i) decoder.From(i, type);
  decoder.in.execute = BytesOf(type) == 8 ? &WithCarry<uint64_t> : &WithCarry<uint32_t>;
}

void DecodeWithCarryIn(InstructionDecoder& decoder) {
  decoder.TakeFlag("cc", kCarryOut);
  decoder.in.flags |= kCarryIn;
  const bool high = decoder.Take("hi");
  if (!high) decoder.Take("lo");
  DecodeCarry(decoder, decoder.opcode() == "addc" ? 0 : decoder.opcode() == "subc" ? 1 : high ? 3 : 2);
}

template <class Op>
bool DecodeBinaryInteger(InstructionDecoder& decoder, Type type) {
  decoder.Count(3);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  decoder.in.execute = PickInteger(type, [](auto zero) -> Execute { return &Binary<decltype(zero), Op>; });
  return decoder.in.execute != nullptr;
}

template <class Op>
bool DecodeTernaryInteger(InstructionDecoder& decoder, Type type) {
  decoder.Count(4);
  decoder.To(0);
  for (size_t i = 1; i < 4; ++i) decoder.From(i, type);
  decoder.in.execute = PickInteger(type, [](auto zero) -> Execute { return &Ternary<decltype(zero), Op>; });
  return decoder.in.execute != nullptr;
}

template <class Op>
bool DecodeUnaryInteger(InstructionDecoder& decoder, Type type) {
  decoder.Count(2);
  decoder.To(0);
  decoder.From(1, type);
  decoder.in.execute = PickInteger(type, [](auto zero) -> Execute { return &Unary<decltype(zero), Op>; });
  return decoder.in.execute != nullptr;
}

bool DecodeAddOrSub(InstructionDecoder& decoder, Type type) {
  const bool add = decoder.opcode() == "add";
  if (decoder.Take("cc")) {
    decoder.in.flags |= kCarryOut;
    decoder.modifiers.emplace_back(BytesOf(type) == 8 ? "u64" : "u32");
    DecodeCarry(decoder, add ? 0 : 1);
    return true;
  }
  const bool saturated = decoder.Take("sat");
  const bool known =
      add ? DecodeBinaryInteger<AddInteger>(decoder, type) : DecodeBinaryInteger<SubInteger>(decoder, type);
  if (!saturated) return known;
  decoder.in.execute = add ? &Binary<int32_t, AddSaturated> : &Binary<int32_t, SubSaturated>;
  return type == Type::kS32;
}

bool DecodeWide(InstructionDecoder& decoder, Type type) {
  const size_t count = decoder.opcode() == "mad" ? 4 : 3;
  decoder.Count(count);
  decoder.To(0);
  decoder.From(1, type);
  decoder.From(2, type);
  if (count == 4) decoder.From(3, Type::kB64);
  decoder.in.execute =
      BytesOf(type) >= 8 ? nullptr : PickInteger(type, [](auto zero) -> Execute { return &Wide<decltype(zero)>; });
  return decoder.in.execute != nullptr;
}

bool DecodeMulOrMad(InstructionDecoder& decoder, Type type) {
  if (decoder.Take("wide")) return DecodeWide(decoder, type);
  const bool mad = decoder.opcode() == "mad";
  const bool high = decoder.Take("hi");
  if (!high && !decoder.Take("lo")) return false;
  if (decoder.Take("cc")) {
    decoder.in.flags |= kCarryOut;
    decoder.modifiers.emplace_back(BytesOf(type) == 8 ? "u64" : "u32");
    DecodeCarry(decoder, high ? 3 : 2);
    return mad;
  }
  if (mad) return high ? DecodeTernaryInteger<MadHigh>(decoder, type) : DecodeTernaryInteger<MadLow>(decoder, type);
  return high ? DecodeBinaryInteger<MulHigh>(decoder, type) : DecodeBinaryInteger<MulLow>(decoder, type);
}

// dp4a: `extra` has bit 0 where a is signed, bit 1 where b is.
void Dp4a(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  auto part = [](uint64_t word, int i, bool is_signed) -> int32_t {
    const auto byte = static_cast<uint8_t>(word >> (8 * i));
    return is_signed ? static_cast<int8_t>(byte) : byte;
  };
  ForLanes(mask, [&](int lane) {
    auto sum = static_cast<uint32_t>(c[lane]);
    for (int i = 0; i < 4; ++i) {
      sum += static_cast<uint32_t>(part(a[lane], i, (in.extra & 1) != 0) * part(b[lane], i, (in.extra & 2) != 0));
    }
    to[lane] = sum;
  });
}

void DecodeDp4a(InstructionDecoder& decoder) {
  const Type a = decoder.TakeType();
  const Type b = decoder.TakeType();
  if (BytesOf(a) != 4 || BytesOf(b) != 4) decoder.Fail("dp4a of other types");
  decoder.in.extra = (IsSigned(a) ? 1 : 0) | (IsSigned(b) ? 2 : 0);
  decoder.Count(4);
  decoder.To(0);
  for (size_t i = 1; i < 4; ++i) decoder.From(i, Type::kB32);
  decoder.in.execute = &Dp4a;
}

}  // namespace

bool DecodeInteger(InstructionDecoder& decoder, Type type) {
  const std::string& name = decoder.opcode();
  if (name == "add" || name == "sub") return DecodeAddOrSub(decoder, type);
  if (name == "mul" || name == "mad") return DecodeMulOrMad(decoder, type);
  if (name == "div") return DecodeBinaryInteger<DivInteger>(decoder, type);
  if (name == "rem") return DecodeBinaryInteger<RemInteger>(decoder, type);
  if (name == "min") return DecodeBinaryInteger<MinInteger>(decoder, type);
  if (name == "max") return DecodeBinaryInteger<MaxInteger>(decoder, type);
  if (name == "neg") return DecodeUnaryInteger<NegInteger>(decoder, type);
  if (name == "abs") return DecodeUnaryInteger<AbsInteger>(decoder, type);
  return DecodeTernaryInteger<Sad>(decoder, type);
}

void AddIntegerOperations(DecodeTable& table) {
  table["addc"] = table["subc"] = table["madc"] = &DecodeWithCarryIn;
  table["dp4a"] = &DecodeDp4a;
}

}  // namespace baton::ptx
