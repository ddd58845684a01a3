// Branches, calls, exits, barriers, and what has no effect.
#include <string_view>

#include "tests/ptx/decoder.h"
#include "tests/ptx/lanes.h"
#include "tests/ptx/launch.h"

namespace baton::ptx {
namespace {

void NoControlEffect(Warp&, const Instruction&, uint32_t) {}

void DecodeBranch(InstructionDecoder& decoder) {
  decoder.Take("uni");
  decoder.Count(1);
  decoder.in.flow = Flow::kBranch;
  decoder.Target(0);
}

void DecodeBranchTable(InstructionDecoder& decoder) {
  if (!decoder.Take("idx")) decoder.Fail(".idx is expected");
  decoder.Take("uni");
  decoder.Count(2);
  decoder.in.flow = Flow::kBranchTable;
  decoder.From(0, Type::kU32);
  decoder.Table(1);
}

void Trap(Warp& warp, const Instruction& in, uint32_t mask) {
  ForLanes(mask, [&](int lane) {
    warp.Report(FindingKind::kTrap, in, lane, in.extra == 1 ? "an assert failed" : "the kernel stops itself");
  });
  warp.launch->stopped = true;
}

void DecodeTrap(InstructionDecoder& decoder) {
  decoder.Count(0);
  decoder.in.execute = &Trap;
}

void DecodeCall(InstructionDecoder& decoder) {
  decoder.Take("uni");
  if (decoder.operands()[1].name == "__assertfail") {
    decoder.in.extra = 1;
    decoder.in.execute = &Trap;
    return;
  }
  decoder.in.flow = Flow::kCall;
  decoder.CallSite();
}

void DecodeReturn(InstructionDecoder& decoder) {
  decoder.Take("uni");
  decoder.Count(0);
  decoder.in.flow = Flow::kReturn;
}

void DecodeExit(InstructionDecoder& decoder) {
  decoder.Count(0);
  decoder.in.flow = Flow::kExit;
}

void OrderLanes(Warp& warp, const Instruction&, uint32_t mask) { warp.OrderLanes(mask); }

void DecodeWarpBarrier(InstructionDecoder& decoder) {
  if (!decoder.Take("sync")) decoder.Fail(".sync is expected");
  decoder.Count(1);
  decoder.Member(0);
  decoder.in.flow = Flow::kWarpBarrier;
  decoder.in.execute = &OrderLanes;
}

// bar.red: the result, the barrier, perhaps the threads, the predicate. `extra` is 1 for .and.
void DecodeReducingBarrier(InstructionDecoder& decoder) {
  const bool counts = decoder.Take("popc");
  const bool all = decoder.Take("and");
  if (!counts && !all && !decoder.Take("or")) decoder.Fail("a reduction that is not known");
  decoder.in.extra = all ? 1 : 0;
  decoder.TakeType();
  decoder.Count(3, 4);
  if (counts) {
    decoder.To(0);
  } else {
    decoder.PredicateTo(decoder.operands()[0]);
  }
  const size_t count = decoder.operands().size();
  for (size_t i = 1; i + 1 < count; ++i) decoder.From(i, Type::kU32);
  decoder.PredicateFrom(count - 1);
}

void DecodeBarrier(InstructionDecoder& decoder) {
  if (decoder.Take("warp")) return DecodeWarpBarrier(decoder);
  decoder.Take("cta");
  if (decoder.Take("aligned") || decoder.opcode() == "bar") decoder.in.flags |= kAligned;
  decoder.in.flow = Flow::kBarrier;
  if (decoder.Take("red")) return DecodeReducingBarrier(decoder);
  const bool arrives = decoder.Take("arrive");
  if (arrives) decoder.in.flags |= kArriveOnly;
  if (!arrives && !decoder.Take("sync")) decoder.Fail("a barrier that is not known");
  decoder.Count(arrives ? 2 : 1, 2);
  for (size_t i = 0; i < decoder.operands().size(); ++i) decoder.From(i, Type::kU32);
}

void DecodeSleep(InstructionDecoder& decoder) {
  decoder.TakeType();
  decoder.Count(1);
  decoder.From(0, Type::kU32);
  decoder.in.execute = &NoControlEffect;
}

// Launches follow one another here, so there is nothing to wait for.
void DecodeGridDependency(InstructionDecoder& decoder) {
  if (!decoder.Take("launch_dependents") && !decoder.Take("wait")) decoder.Fail("not known");
  decoder.Count(0);
  decoder.in.execute = &NoControlEffect;
}

}  // namespace

void AddControlOperations(DecodeTable& table) {
  table["bra"] = &DecodeBranch;
  table["brx"] = &DecodeBranchTable;
  table["call"] = &DecodeCall;
  table["ret"] = &DecodeReturn;
  table["exit"] = &DecodeExit;
  table["bar"] = table["barrier"] = &DecodeBarrier;
  table["trap"] = table["brkpt"] = &DecodeTrap;
  table["nanosleep"] = &DecodeSleep;
  table["griddepcontrol"] = &DecodeGridDependency;
}

}  // namespace baton::ptx
