// ld, ldu, st, prefetch, fences.
#include "tests/ptx/memory_operations.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"

namespace baton::ptx {
namespace {

template <int kBytes>
void Load(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* base = warp.From(in.from[0]);
  const bool extends = (in.flags & kSignExtends) != 0;
  const uint32_t all = kBytes * in.count;
  // One register may be both the address and a destination of a vector, so the values wait.
  uint8_t values[kLanes][32];
  ForLanes(mask, [&](int lane) {
    const uint8_t* from = warp.Read(in, EffectiveAddress(in, base[lane]), all, lane);
    if (from != nullptr) {
      std::memcpy(values[lane], from, all);
    } else {
      std::memset(values[lane], 0, all);
    }
  });
  for (int i = 0; i < in.count; ++i) {
    uint64_t* to = warp.To(in.to[i]);
    ForLanes(mask, [&](int lane) {
      uint64_t value = 0;
      std::memcpy(&value, values[lane] + i * kBytes, kBytes);
      if (extends) value = static_cast<uint64_t>(static_cast<int64_t>(value << (64 - 8 * kBytes)) >> (64 - 8 * kBytes));
      to[lane] = value & in.to_mask;
    });
  }
}

template <int kBytes>
void Store(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* base = warp.From(in.from[0]);
  const uint32_t all = kBytes * in.count;
  ForLanes(mask, [&](int lane) {
    uint8_t* to = warp.Write(in, EffectiveAddress(in, base[lane]), all, lane);
    if (to == nullptr) return;
    for (int i = 0; i < in.count; ++i) std::memcpy(to + i * kBytes, &warp.From(in.from[1 + i])[lane], kBytes);
  });
}

void NoMemoryEffect(Warp&, const Instruction&, uint32_t) {}

int TakeVector(InstructionDecoder& decoder) { return decoder.Take("v2") ? 2 : decoder.Take("v4") ? 4 : 1; }

struct VectorAccess {
  Type type;
  int bytes;
  std::vector<Operand> parts;
};

// Reads what a load and a store have alike. Of the two operands, `address` says where; the other one has the parts.
VectorAccess TakeAccess(InstructionDecoder& decoder, size_t address) {
  const Space space = TakeMemorySpace(decoder);
  TakeOrder(decoder);
  const int count = TakeVector(decoder);
  const Type type = decoder.TakeType();
  const int bytes = BytesOf(type);
  decoder.Count(2);
  decoder.Address(address, space);
  std::vector<Operand> parts = InstructionDecoder::Parts(decoder.operands()[1 - address]);
  if (static_cast<int>(parts.size()) != count || bytes == 0 || bytes * count > 16)
    decoder.Fail("a vector of another length");
  decoder.in.bytes = static_cast<uint8_t>(bytes);
  decoder.in.count = static_cast<uint8_t>(count);
  return {.type = type, .bytes = bytes, .parts = std::move(parts)};
}

void DecodeLoad(InstructionDecoder& decoder) {
  const auto [type, bytes, parts] = TakeAccess(decoder, 1);
  for (const Operand& part : parts) decoder.ToOperand(part);
  if (IsSigned(type)) decoder.in.flags |= kSignExtends;
  decoder.in.execute = bytes == 1 ? &Load<1> : bytes == 2 ? &Load<2> : bytes == 4 ? &Load<4> : &Load<8>;
}

void DecodeStore(InstructionDecoder& decoder) {
  const auto [type, bytes, parts] = TakeAccess(decoder, 0);
  for (const Operand& part : parts) decoder.FromOperand(part, type);
  if (decoder.in.space != Space::kLocal && decoder.in.space != Space::kParam) decoder.in.flags |= kStores;
  decoder.in.execute = bytes == 1 ? &Store<1> : bytes == 2 ? &Store<2> : bytes == 4 ? &Store<4> : &Store<8>;
}

void DecodePrefetch(InstructionDecoder& decoder) {
  Space ignored = TakeMemorySpace(decoder);
  for (std::string_view level : {"L1", "L2", "L2::evict_last", "L2::evict_normal"}) decoder.Take(level);
  decoder.Count(1);
  decoder.Address(0, ignored);
  decoder.in.execute = &NoMemoryEffect;
}

// Memory is sequentially consistent here.
void DecodeFence(InstructionDecoder& decoder) {
  for (std::string_view word : {"sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "gl", "sys"})
    decoder.Take(word);
  decoder.Count(0);
  decoder.in.execute = &NoMemoryEffect;
}

}  // namespace

uint64_t EffectiveAddress(const Instruction& in, uint64_t base) {
  const uint64_t address = base + static_cast<uint64_t>(in.offset);
  return (in.flags & kAddress32) != 0 ? static_cast<uint32_t>(address) : address;
}

Space TakeMemorySpace(InstructionDecoder& decoder) {
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"global", Space::kGlobal},      {"const", Space::kConst},      {"shared", Space::kShared},
      {"shared::cta", Space::kShared}, {"local", Space::kLocal},      {"param", Space::kParam},
      {"param::entry", Space::kParam}, {"param::func", Space::kParam}};
  for (const auto& [name, space] : kSpaces) {
    if (decoder.Take(name)) return space;
  }
  return Space::kGeneric;
}

void TakeOrder(InstructionDecoder& decoder) {
  for (std::string_view order : {"volatile", "relaxed", "acquire", "release", "acq_rel"})
    decoder.TakeFlag(order, kStrong);
  for (std::string_view scope : {"cta", "cluster", "gpu", "sys"}) decoder.Take(scope);
  decoder.TakeCacheHints();
}

void AddMemoryOperations(DecodeTable& table) {
  table["ld"] = table["ldu"] = &DecodeLoad;
  table["st"] = &DecodeStore;
  table["prefetch"] = table["prefetchu"] = &DecodePrefetch;
  table["membar"] = table["fence"] = &DecodeFence;
}

}  // namespace baton::ptx
