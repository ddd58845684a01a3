// shfl, vote, match, redux, elect, activemask, bar.warp.sync.
#include <algorithm>
#include <bit>
#include <string_view>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

enum class Shuffle : uint8_t { kUp, kDown, kBfly, kIdx };

// The lane that `lane` reads, and whether it is in range.
std::pair<uint32_t, bool> ShuffleSource(Shuffle mode, uint32_t lane, uint32_t b, uint32_t c) {
  const uint32_t by = b & 31;
  const uint32_t segment = c >> 8 & 31;
  const uint32_t least = lane & segment;
  const uint32_t most = least | (c & 31 & ~segment);
  switch (mode) {
    case Shuffle::kUp:
      return {lane - by, static_cast<int32_t>(lane - by) >= static_cast<int32_t>(most)};
    case Shuffle::kDown:
      return {lane + by, lane + by <= most};
    case Shuffle::kBfly:
      return {lane ^ by, (lane ^ by) <= most};
    case Shuffle::kIdx:
      break;
  }
  const uint32_t at = least | (by & ~segment);
  return {at, at <= most};
}

void DoShuffle(Warp& warp, const Instruction& in, uint32_t mask) {
  uint64_t values[kLanes];
  std::copy_n(warp.From(in.from[0]), kLanes, values);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = warp.From(in.from[2]);
  uint64_t* to = warp.To(in.to[0]);
  uint64_t results[kLanes];
  uint32_t in_range = 0;
  ForLanes(mask, [&](int lane) {
    const auto me = static_cast<uint32_t>(lane);
    auto [source, inside] = ShuffleSource(static_cast<Shuffle>(in.extra), me, static_cast<uint32_t>(b[lane]),
                                          static_cast<uint32_t>(c[lane]));
    if (!inside) source = me;
    if ((mask >> source & 1) == 0) {
      warp.Report(FindingKind::kAbsentLanes, in, lane,
                  Text("lane ", lane, " reads lane ", source, ", which takes no part"));
    }
    results[lane] = values[source];
    in_range |= uint32_t{inside} << lane;
  });
  ForLanes(mask, [&](int lane) { to[lane] = results[lane]; });
  if (in.predicate_destinations > 0) warp.SetPredicate(in.predicate_to[0], mask, in_range);
}

void DecodeShuffle(InstructionDecoder& decoder) {
  static constexpr std::string_view kModes[] = {"up", "down", "bfly", "idx"};
  if (!decoder.Take("sync")) decoder.Fail(".sync is expected");
  bool known = false;
  for (uint64_t mode = 0; mode < 4; ++mode) {
    if (!decoder.Take(kModes[mode])) continue;
    decoder.in.extra = mode;
    known = true;
  }
  if (!known || BytesOf(decoder.TakeType()) != 4) decoder.Fail("a shuffle that is not known");
  decoder.Count(5);
  const Operand& to = decoder.operands()[0];
  decoder.ToOperand(to.kind == Operand::Kind::kPair ? to.parts[0] : to);
  if (to.kind == Operand::Kind::kPair) decoder.PredicateTo(to.parts[1]);
  for (size_t i = 1; i < 4; ++i) decoder.From(i, Type::kB32);
  decoder.Member(4);
  decoder.in.execute = &DoShuffle;
}

enum class Vote : uint8_t { kAll, kAny, kUni, kBallot };

void DoVote(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint32_t bits = warp.Bits(in.predicate_from[0]) & mask;
  const auto mode = static_cast<Vote>(in.extra);
  if (mode == Vote::kBallot) {
    uint64_t* to = warp.To(in.to[0]);
    ForLanes(mask, [&](int lane) { to[lane] = bits; });
    return;
  }
  const bool all = bits == mask;
  const bool result = mode == Vote::kAll ? all : mode == Vote::kAny ? bits != 0 : all || bits == 0;
  warp.SetPredicate(in.predicate_to[0], mask, result ? kAllLanes : 0);
}

void DecodeVote(InstructionDecoder& decoder) {
  static constexpr std::string_view kModes[] = {"all", "any", "uni", "ballot"};
  if (!decoder.Take("sync")) decoder.Fail(".sync is expected");
  bool known = false;
  for (uint64_t mode = 0; mode < 4; ++mode) {
    if (!decoder.Take(kModes[mode])) continue;
    decoder.in.extra = mode;
    known = true;
  }
  const bool ballot = decoder.in.extra == 3;
  if (!known || decoder.TakeType() != (ballot ? Type::kB32 : Type::kPred)) decoder.Fail("a vote that is not known");
  decoder.Count(3);
  if (ballot) {
    decoder.To(0);
  } else {
    decoder.PredicateTo(decoder.operands()[0]);
  }
  decoder.PredicateFrom(1);
  decoder.Member(2);
  decoder.in.execute = &DoVote;
}

// match: `extra` is 1 for .all.
template <class T>
void DoMatch(Warp& warp, const Instruction& in, uint32_t mask) {
  uint64_t values[kLanes];
  std::copy_n(warp.From(in.from[0]), kLanes, values);
  uint64_t* to = warp.To(in.to[0]);
  uint32_t same[kLanes] = {};
  ForLanes(mask, [&](int lane) {
    ForLanes(mask, [&](int other) {
      same[lane] |= uint32_t{static_cast<T>(values[lane]) == static_cast<T>(values[other])} << other;
    });
  });
  const bool all = same[std::countr_zero(mask)] == mask;
  ForLanes(mask, [&](int lane) { to[lane] = in.extra == 0 ? same[lane] : all ? mask : 0; });
  if (in.predicate_destinations > 0) warp.SetPredicate(in.predicate_to[0], mask, all ? kAllLanes : 0);
}

void DecodeMatch(InstructionDecoder& decoder) {
  if (!decoder.Take("sync")) decoder.Fail(".sync is expected");
  const bool all = decoder.Take("all");
  if (!all && !decoder.Take("any")) decoder.Fail("a match that is not known");
  decoder.in.extra = all ? 1 : 0;
  const Type type = decoder.TakeType();
  decoder.Count(3);
  const Operand& to = decoder.operands()[0];
  decoder.ToOperand(to.kind == Operand::Kind::kPair ? to.parts[0] : to);
  if (to.kind == Operand::Kind::kPair) decoder.PredicateTo(to.parts[1]);
  decoder.From(1, type);
  decoder.Member(2);
  decoder.in.execute = BytesOf(type) == 8 ? &DoMatch<uint64_t> : &DoMatch<uint32_t>;
}

enum class Redux : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };

template <class T>
void DoRedux(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* a = warp.From(in.from[0]);
  T result = Value<T>(a[std::countr_zero(mask)]);
  ForLanes(mask & (mask - 1), [&](int lane) {
    const T value = Value<T>(a[lane]);
    switch (static_cast<Redux>(in.extra)) {
      case Redux::kAdd:
        result = static_cast<T>(static_cast<uint32_t>(result) + static_cast<uint32_t>(value));
        break;
      case Redux::kMin:
        result = std::min(result, value);
        break;
      case Redux::kMax:
        result = std::max(result, value);
        break;
      case Redux::kAnd:
        result &= value;
        break;
      case Redux::kOr:
        result |= value;
        break;
      case Redux::kXor:
        result ^= value;
        break;
    }
  });
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = BitsOf<T>(result); });
}

void DecodeRedux(InstructionDecoder& decoder) {
  static constexpr std::string_view kOps[] = {"add", "min", "max", "and", "or", "xor"};
  if (!decoder.Take("sync")) decoder.Fail(".sync is expected");
  bool known = false;
  for (uint64_t op = 0; op < std::size(kOps); ++op) {
    if (!decoder.Take(kOps[op])) continue;
    decoder.in.extra = op;
    known = true;
  }
  const Type type = decoder.TakeType();
  if (!known || (type != Type::kU32 && type != Type::kS32 && type != Type::kB32))
    decoder.Fail("a redux that is not known");
  decoder.Count(3);
  decoder.To(0);
  decoder.From(1, type);
  decoder.Member(2);
  decoder.in.execute = type == Type::kS32 ? &DoRedux<int32_t> : &DoRedux<uint32_t>;
}

void DoElect(Warp& warp, const Instruction& in, uint32_t mask) {
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = static_cast<uint64_t>(std::countr_zero(mask)); });
  warp.SetPredicate(in.predicate_to[0], mask, mask & (0 - mask));
}

void DecodeElect(InstructionDecoder& decoder) {
  if (!decoder.Take("sync")) decoder.Fail(".sync is expected");
  decoder.Count(2);
  const Operand& to = decoder.operands()[0];
  if (to.kind != Operand::Kind::kPair) return decoder.Fail("elect gives a lane and a predicate");
  decoder.ToOperand(to.parts[0]);
  decoder.PredicateTo(to.parts[1]);
  decoder.Member(1);
  decoder.in.execute = &DoElect;
}

void DoActiveMask(Warp& warp, const Instruction& in, uint32_t mask) {
  uint64_t* to = warp.To(in.to[0]);
  ForLanes(mask, [&](int lane) { to[lane] = mask; });
}

void DecodeActiveMask(InstructionDecoder& decoder) {
  if (decoder.TakeType() != Type::kB32) decoder.Fail("activemask of another type");
  decoder.Count(1);
  decoder.To(0);
  decoder.in.execute = &DoActiveMask;
}

}  // namespace

void AddWarpOperations(DecodeTable& table) {
  table["shfl"] = &DecodeShuffle;
  table["vote"] = &DecodeVote;
  table["match"] = &DecodeMatch;
  table["redux"] = &DecodeRedux;
  table["elect"] = &DecodeElect;
  table["activemask"] = &DecodeActiveMask;
}

}  // namespace baton::ptx
