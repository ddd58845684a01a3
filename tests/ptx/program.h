// A kernel in the form that the executor runs: names are resolved, and every instruction knows its function.
#ifndef BATON_TESTS_PTX_PROGRAM_H_
#define BATON_TESTS_PTX_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/ptx/module.h"
#include "tests/ptx/number_formats.h"

namespace baton::ptx {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;

struct Warp;
struct Instruction;
// Runs an instruction for the lanes of `mask`, which is not 0.
using Execute = void (*)(Warp& warp, const Instruction& in, uint32_t mask);

// What happens to the program counter.
enum class Flow : uint8_t {
  kNext,
  kBranch,
  kBranchTable,
  kCall,
  kReturn,
  kExit,
  // bar.sync and its kin, of a block.
  kBarrier,
  // Runs once all lanes of the member mask are at this instruction.
  kCollective,
  // Runs once all lanes of the member mask are at some bar.warp.sync of that mask.
  kWarpBarrier,
};

// What several instructions have as modifiers.
enum Flag : uint32_t {
  kFtz = 1,
  kSat = 2,
  kRelu = 4,
  kNanPropagates = 8,
  kCarryIn = 16,
  kCarryOut = 32,
  kTransposed = 64,
  // Volatile, relaxed and stronger accesses, and atomic ones, do not race with each other.
  kStrong = 128,
  kArriveOnly = 256,
  // The whole warp takes part, by the ISA's .aligned.
  kAligned = 512,
  kSignExtends = 1024,
  kStores = 2048,
  kAddress32 = 4096,
};

// A value of 32 lanes: a register from 0, or the constant ~slot. Predicates have their own numbers: 0 is false and 1 is
// true for ever.
using Slot = int32_t;
inline constexpr Slot kFalse = 0;
inline constexpr Slot kTrue = 1;

struct Predicate {
  Slot slot = kTrue;
  // All ones where it is negated.
  uint32_t flip = 0;
};

struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::kNext;
  Space space = Space::kGeneric;
  Rounding rounding = Rounding::kNearest;
  uint8_t destinations = 0;
  uint8_t sources = 0;
  uint8_t predicate_sources = 0;
  uint8_t predicate_destinations = 0;
  // Of one element in memory, and how many elements.
  uint8_t bytes = 0;
  uint8_t count = 1;
  uint32_t flags = 0;
  int32_t line = 0;
  Predicate guard;
  Slot to[8] = {};
  Slot from[12] = {};
  Slot predicate_to[2] = {};
  Predicate predicate_from[2];
  // The member mask of a collective.
  Slot member = 0;
  // Of a branch; the index of a table or of a call site.
  int32_t target = 0;
  int64_t offset = 0;
  // What the opcode needs: a truth table, a mode, a comparison.
  uint64_t extra = 0;
  // Bits of the destination register.
  uint64_t to_mask = ~uint64_t{0};
};

// Bytes of a lane's local memory that a call moves.
struct Copy {
  uint32_t from;
  uint32_t to;
  uint32_t bytes;
};

struct CallSite {
  int32_t target = 0;
  std::vector<Copy> arguments;
  std::vector<Copy> results;
};

// State of a byte of local or shared memory.
enum ByteState : uint8_t { kUnwritten = 0, kWritten = 1, kRedZone = 2 };

// The first address of shared memory: what is below belongs to the system.
inline constexpr uint32_t kSharedBase = 0x400;
inline constexpr uint32_t kLocalBase = 0x100;

struct KernelProgram {
  std::string name;
  std::vector<Instruction> code;
  int32_t entry = 0;
  int32_t registers = 0;
  int32_t predicates = 2;
  // 32 equal values for each.
  std::vector<uint64_t> constants;
  // Registers that hold special registers from the start.
  std::vector<std::pair<std::string, Slot>> specials;
  std::vector<std::string> register_names;
  std::vector<CallSite> calls;
  std::vector<std::vector<int32_t>> tables;
  // Of a lane's local memory and of static shared memory, red zones between variables included.
  std::vector<uint8_t> local_layout;
  std::vector<uint8_t> shared_layout;
  // Without red zones, as a device would count.
  uint32_t static_shared = 0;
  uint32_t local_bytes = 0;
  // Offset and size of each parameter.
  std::vector<std::pair<uint32_t, uint32_t>> params;
  uint32_t param_bytes = 0;
  uint32_t most_threads = 0;
  uint32_t required[3] = {};
  // Lines of the PTX text, for reports.
  std::shared_ptr<const std::vector<std::string>> lines;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_PROGRAM_H_
