// cp.async.
#include <cstring>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/memory_operations.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

// Sources: the address read, the address written, and where it is there how many bytes are read; the rest are zeros.
// `bytes` are written, `extra` is the offset of the address written.
void CopyAsync(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t* source = warp.From(in.from[0]);
  const uint64_t* target = warp.From(in.from[1]);
  const uint64_t* sizes = in.sources > 2 ? warp.From(in.from[2]) : nullptr;
  const uint32_t ignored = in.predicate_sources > 0 ? warp.Bits(in.predicate_from[0]) : 0;
  ForLanes(mask, [&](int lane) {
    uint8_t data[16] = {};
    uint64_t size = sizes != nullptr ? static_cast<uint32_t>(sizes[lane]) : in.bytes;
    if ((ignored >> lane & 1) != 0) size = 0;
    if (size > in.bytes) {
      warp.Report(FindingKind::kBadOperand, in, lane, Text("cp.async reads ", size, " bytes and writes ", in.bytes));
      size = in.bytes;
    }
    const uint64_t from = EffectiveAddress(in, source[lane]);
    if (size == in.bytes) {
      const uint8_t* bytes = warp.Read(in, from, in.bytes, lane);
      if (bytes != nullptr) std::memcpy(data, bytes, in.bytes);
    } else if (from % in.bytes != 0) {
      warp.Report(FindingKind::kMisaligned, in, lane, "the source of cp.async");
    } else {
      for (uint64_t i = 0; i < size; ++i) {
        const uint8_t* byte = warp.Read(in, from + i, 1, lane);
        if (byte != nullptr) data[i] = *byte;
      }
    }
    warp.CopyLater(in, static_cast<uint32_t>(target[lane] + in.extra), data, in.bytes, lane);
  });
}

void Commit(Warp& warp, const Instruction&, uint32_t mask) { warp.CommitCopies(mask); }

void WaitGroup(Warp& warp, const Instruction& in, uint32_t mask) {
  warp.LandCopies(in, mask, static_cast<int64_t>(in.extra));
}

void WaitAll(Warp& warp, const Instruction& in, uint32_t mask) { warp.LandCopies(in, mask, -1); }

void DecodeCopy(InstructionDecoder& decoder) {
  const bool all_levels = decoder.Take("ca");
  if (!all_levels && !decoder.Take("cg")) decoder.Fail("a kind of cp.async that is not known");
  if (!decoder.Take("shared") && !decoder.Take("shared::cta")) decoder.Fail("cp.async writes shared memory");
  if (!decoder.Take("global")) decoder.Fail("cp.async reads global memory");
  decoder.TakeCacheHints();
  decoder.Count(3, 5);
  decoder.Address(1, Space::kGlobal);
  const Operand& target = decoder.operands()[0];
  if (target.kind != Operand::Kind::kAddress) return decoder.Fail("an address in brackets is expected");
  decoder.FromOperand(target.parts[0], Type::kB64);
  decoder.in.extra = static_cast<uint64_t>(target.offset);
  decoder.in.bytes = static_cast<uint8_t>(decoder.Immediate(2));
  const int bytes = decoder.in.bytes;
  if (bytes != 16 && (!all_levels || (bytes != 4 && bytes != 8))) decoder.Fail("a size that cp.async has not");
  const size_t count = decoder.operands().size();
  if (count == 5) return decoder.Fail("cache policies are not known");
  if (count == 4 && decoder.IsPredicate(decoder.operands()[3])) {
    decoder.PredicateFrom(3);
  } else if (count == 4) {
    decoder.From(3, Type::kB32);
  }
  decoder.in.flags |= kStores;
  decoder.in.execute = &CopyAsync;
}

void DecodeAsync(InstructionDecoder& decoder) {
  if (!decoder.Take("async")) decoder.Fail("a kind of cp that is not known");
  if (decoder.Take("commit_group")) {
    decoder.Count(0);
    decoder.in.execute = &Commit;
  } else if (decoder.Take("wait_group")) {
    decoder.Count(1);
    decoder.in.extra = decoder.Immediate(0);
    decoder.in.execute = &WaitGroup;
  } else if (decoder.Take("wait_all")) {
    decoder.Count(0);
    decoder.in.execute = &WaitAll;
  } else {
    DecodeCopy(decoder);
  }
}

}  // namespace

void AddAsyncCopies(DecodeTable& table) { table["cp"] = &DecodeAsync; }

}  // namespace baton::ptx
