// What the interpreter finds wrong with a kernel.
#ifndef BATON_TESTS_PTX_FINDINGS_H_
#define BATON_TESTS_PTX_FINDINGS_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace baton::ptx {

enum class FindingKind : uint8_t {
  kOutOfBounds,       // no allocation, a red zone, freed memory, or a write to constants
  kMisaligned,        // an address that is not a multiple of the access's size
  kUninitialized,     // a register, or a byte of memory, that nobody wrote
  kSharedRace,        // two threads, one of which writes, and nothing that orders them
  kGlobalRace,        // the same between two blocks of one launch
  kDivergentBarrier,  // a barrier that threads of the block or of the warp cannot reach
  kAbsentLanes,       // an operation of a warp that names lanes that cannot reach it
  kWrongMask,         // a mask without the calling lane
  kUnwaitedCopy,      // bytes of cp.async that are touched before its wait
  kTrap,              // trap, brkpt, or a failed assert
  kTooLong,           // more instructions than the launch may have
  kBadOperand,        // an operand beyond what the ISA defines, such as an unknown barrier
};

std::string_view FindingName(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::string kernel;
  // Of the PTX text, from 1, and its text.
  int line = 0;
  std::string source;
  // Where it was first seen.
  std::array<uint32_t, 3> block{};
  std::array<uint32_t, 3> thread{};
  std::string message;
  // How many times it was seen at this line, in one launch.
  uint64_t count = 1;
};

std::string ToString(const Finding& finding);

// One for each kind and line; at most kMostFindings. Safe for several threads.
class FindingList {
 public:
  static constexpr size_t kMostFindings = 100;

  void Add(Finding finding);
  bool Empty() const;
  std::vector<Finding> Take();
  std::vector<Finding> See() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Finding> findings_;
};

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_FINDINGS_H_
