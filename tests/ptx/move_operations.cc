// mov, cvta, isspacep.
#include <string_view>

#include "tests/ptx/decoder.h"
#include "tests/ptx/device_memory.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

void Move(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = a[lane] & in.to_mask; });
}

void MovePredicate(Warp& warp, const Instruction& in, uint32_t mask) {
  warp.SetPredicate(in.predicate_to[0], mask, warp.Bits(in.predicate_from[0]));
}

// `bytes` is the size of a part.
void Pack(Warp& warp, const Instruction& in, uint32_t mask) {
  uint64_t* to = warp.To(in.to[0]);
  const int bits = 8 * in.bytes;
  const uint64_t part_mask = (uint64_t{1} << bits) - 1;
  ForLanes(mask, [&](int lane) {
    uint64_t value = 0;
    for (int i = 0; i < in.sources; ++i) value |= (warp.From(in.from[i])[lane] & part_mask) << (bits * i);
    to[lane] = value;
  });
}

void Unpack(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  const int bits = 8 * in.bytes;
  const uint64_t part_mask = (uint64_t{1} << bits) - 1;
  ForLanes(mask, [&](int lane) {
    const uint64_t value = a[lane];
    for (int i = 0; i < in.destinations; ++i) warp.To(in.to[i])[lane] = value >> (bits * i) & part_mask;
  });
}

// The instructions that the warp's lanes have executed.
void ReadClock(Warp& warp, const Instruction& in, uint32_t mask) {
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = warp.instructions & in.to_mask; });
}

void DecodeVector(InstructionDecoder& decoder, Type type) {
  const Operand& to = decoder.operands()[0];
  const Operand& from = decoder.operands()[1];
  const auto parts = InstructionDecoder::Parts(to.kind == Operand::Kind::kVector ? to : from);
  if (parts.empty() || BytesOf(type) % static_cast<int>(parts.size()) != 0 || parts.size() == 1) {
    return decoder.Fail("a vector of another length");
  }
  decoder.in.bytes = static_cast<uint8_t>(BytesOf(type) / static_cast<int>(parts.size()));
  if (to.kind == Operand::Kind::kVector) {
    for (const Operand& part : parts) decoder.ToOperand(part);
    decoder.From(1, type);
    decoder.in.execute = &Unpack;
    return;
  }
  decoder.To(0);
  for (const Operand& part : parts) decoder.FromOperand(part, decoder.in.bytes == 4 ? Type::kB32 : Type::kB16);
  decoder.in.execute = &Pack;
}

void DecodeMove(InstructionDecoder& decoder) {
  const Type type = decoder.TakeType();
  decoder.Count(2);
  const Operand& to = decoder.operands()[0];
  const Operand& from = decoder.operands()[1];
  if (type == Type::kPred) {
    decoder.PredicateTo(to);
    decoder.PredicateFrom(1);
    decoder.in.execute = &MovePredicate;
    return;
  }
  if (to.kind == Operand::Kind::kVector || from.kind == Operand::Kind::kVector) return DecodeVector(decoder, type);
  decoder.To(0);
  if (from.kind == Operand::Kind::kSpecial &&
      (from.name.starts_with("clock") || from.name.starts_with("globaltimer"))) {
    decoder.in.execute = &ReadClock;
    return;
  }
  decoder.From(1, type);
  decoder.in.execute = &Move;
}

uint64_t WindowOf(Space space) {
  switch (space) {
    case Space::kShared:
      return kSharedWindow;
    case Space::kLocal:
      return kLocalWindow;
    case Space::kParam:
      return kParamWindow;
    default:
      return 0;
  }
}

bool TakeSpace(InstructionDecoder& decoder, Space* space) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"global", Space::kGlobal},      {"const", Space::kConst}, {"shared", Space::kShared},
      {"shared::cta", Space::kShared}, {"local", Space::kLocal}, {"param", Space::kParam},
      {"param::entry", Space::kParam}};
  for (const auto& [name, value] : kSpaces) {
    if (!decoder.Take(name)) continue;
    *space = value;
    return true;
  }
  return false;
}

// `extra` is the window, `offset` is 1 where the address becomes one of the space.
void ConvertAddress(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) {
    const uint64_t address = a[lane];
    if (in.extra == 0) {
      to[lane] = address;
    } else {
      to[lane] = (in.offset == 1 ? address - in.extra : address + in.extra) & in.to_mask;
    }
  });
}

void DecodeConvertAddress(InstructionDecoder& decoder) {
  const bool from_generic = decoder.Take("to");
  Space space = Space::kGeneric;
  if (!TakeSpace(decoder, &space)) decoder.Fail("no space");
  const Type type = decoder.TakeType();
  if (BytesOf(type) != 8) decoder.Fail("addresses have 64 bits");
  decoder.Count(2);
  decoder.To(0);
  decoder.From(1, type);
  decoder.in.extra = WindowOf(space);
  decoder.in.offset = from_generic ? 1 : 0;
  decoder.in.execute = &ConvertAddress;
}

void IsInSpace(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  uint32_t bits = 0;
  ForLanes(mask, [&](int lane) {
    const uint64_t window = a[lane] & kWindowMask;
    const bool other = window == kSharedWindow || window == kLocalWindow || window == kParamWindow;
    bits |= uint32_t{in.extra == 0 ? !other : window == in.extra} << lane;
  });
  warp.SetPredicate(in.predicate_to[0], mask, bits);
}

void DecodeIsInSpace(InstructionDecoder& decoder) {
  Space space = Space::kGeneric;
  if (!TakeSpace(decoder, &space) || space == Space::kConst) decoder.Fail("no such space");
  decoder.Count(2);
  decoder.PredicateTo(decoder.operands()[0]);
  decoder.From(1, Type::kB64);
  decoder.in.extra = WindowOf(space);
  decoder.in.execute = &IsInSpace;
}

}  // namespace

void AddMoves(DecodeTable& table) {
  table["mov"] = &DecodeMove;
  table["cvta"] = &DecodeConvertAddress;
  table["isspacep"] = &DecodeIsInSpace;
}

}  // namespace baton::ptx
