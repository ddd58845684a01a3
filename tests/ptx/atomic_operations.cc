// atom and red.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/memory_operations.h"

namespace baton::ptx {
namespace {

enum class Atomic : uint8_t { kAdd, kMin, kMax, kExch, kCas, kAnd, kOr, kXor, kInc, kDec };

template <class T>
T Updated(Atomic op, T old, T b, T c) {
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case Atomic::kAdd:
        return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
      case Atomic::kMin:
        return std::min(old, b);
      case Atomic::kMax:
        return std::max(old, b);
      case Atomic::kExch:
        return b;
      case Atomic::kCas:
        return old == b ? c : old;
      case Atomic::kAnd:
        return old & b;
      case Atomic::kOr:
        return old | b;
      case Atomic::kXor:
        return old ^ b;
      case Atomic::kInc:
        return old >= b ? T{0} : static_cast<T>(old + 1);
      case Atomic::kDec:
        return old == 0 || old > b ? b : static_cast<T>(old - 1);
    }
    return old;
  } else {
    return old + b;
  }
}

// Lanes of a warp one after another, other host threads in between.
template <class T, class Word>
void DoAtomic(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* base = warp.From(in.from[0]);
  const uint64_t* b = warp.From(in.from[1]);
  const uint64_t* c = in.sources > 2 ? warp.From(in.from[2]) : b;
  uint64_t* to = in.destinations > 0 ? warp.To(in.to[0]) : nullptr;
  ForLanes(mask, [&](int lane) {
    uint8_t* at = warp.Update(in, EffectiveAddress(in, base[lane]), sizeof(T), lane);
    Word old = 0;
    if (at != nullptr) {
      std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
      old = word.load(std::memory_order_relaxed);
      Word updated = 0;
      do {
        updated = static_cast<Word>(
            BitsOf<T>(Updated(static_cast<Atomic>(in.extra), Value<T>(old), Value<T>(b[lane]), Value<T>(c[lane]))));
      } while (!word.compare_exchange_weak(old, updated));
    }
    if (to != nullptr) to[lane] = old;
  });
}

Execute Pick(Type type, Atomic op) {
  switch (type) {
    case Type::kF32:
      return op == Atomic::kAdd ? &DoAtomic<float, uint32_t> : nullptr;
    case Type::kF64:
      return op == Atomic::kAdd ? &DoAtomic<double, uint64_t> : nullptr;
    case Type::kU32:
    case Type::kB32:
      return &DoAtomic<uint32_t, uint32_t>;
    case Type::kS32:
      return &DoAtomic<int32_t, uint32_t>;
    case Type::kU64:
    case Type::kB64:
      return &DoAtomic<uint64_t, uint64_t>;
    case Type::kS64:
      return &DoAtomic<int64_t, uint64_t>;
    case Type::kB16:
      return op == Atomic::kCas ? &DoAtomic<uint16_t, uint16_t> : nullptr;
    default:
      return nullptr;
  }
}

void DecodeAtomic(InstructionDecoder& decoder) {
  static constexpr std::pair<std::string_view, Atomic> kOps[] = {
      {"add", Atomic::kAdd}, {"min", Atomic::kMin}, {"max", Atomic::kMax}, {"exch", Atomic::kExch},
      {"cas", Atomic::kCas}, {"and", Atomic::kAnd}, {"or", Atomic::kOr},   {"xor", Atomic::kXor},
      {"inc", Atomic::kInc}, {"dec", Atomic::kDec}};
  const Space space = TakeMemorySpace(decoder);
  TakeOrder(decoder);
  Atomic op = Atomic::kAdd;
  bool known = false;
  for (const auto& [name, value] : kOps) {
    if (!decoder.Take(name)) continue;
    op = value;
    known = true;
  }
  if (!known) decoder.Fail("an atomic operation that is not known");
  const Type type = decoder.TakeType();
  const bool returns = decoder.opcode() == "atom";
  const size_t first = returns ? 1 : 0;
  const size_t count = first + (op == Atomic::kCas ? 3 : 2);
  decoder.Count(count);
  decoder.Address(first, space);
  for (size_t i = first + 1; i < count; ++i) decoder.From(i, type);
  if (returns) decoder.To(0);
  decoder.in.extra = static_cast<uint64_t>(op);
  decoder.in.flags |= kStrong | kStores;
  decoder.in.execute = Pick(type, op);
  if (decoder.in.execute == nullptr) decoder.Fail("no atomic operation of that type");
}

}  // namespace

void AddAtomicOperations(DecodeTable& table) { table["atom"] = table["red"] = &DecodeAtomic; }

}  // namespace baton::ptx
