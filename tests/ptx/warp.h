// A warp: registers, divergence, memory as its lanes see it.
#ifndef BATON_TESTS_PTX_WARP_H_
#define BATON_TESTS_PTX_WARP_H_

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/ptx/findings.h"
#include "tests/ptx/program.h"
#include "tests/ptx/shared_memory.h"

namespace baton::ptx {

struct Allocation;
class Block;
struct Launch;

enum class WarpState : uint8_t {
  kReady,
  // All live lanes are at a barrier of the block.
  kAtBarrier,
  kExited,
  // Nothing can go on. A finding says why.
  kStuck,
};

// A copy of cp.async that its thread has not waited for.
struct PendingCopy {
  uint8_t lane;
  uint8_t bytes;
  uint32_t group;
  uint32_t to;
  uint8_t data[16];
};

struct Warp {
  // --- For the functions of instructions ---
  const uint64_t* From(Slot slot) const {
    return slot >= 0 ? registers.data() + int64_t{slot} * kLanes : kernel->constants.data() + int64_t{~slot} * kLanes;
  }
  uint64_t* To(Slot slot) { return registers.data() + int64_t{slot} * kLanes; }
  uint32_t Bits(Predicate predicate) const { return predicates[predicate.slot] ^ predicate.flip; }
  void SetPredicate(Slot slot, uint32_t mask, uint32_t bits) {
    predicates[slot] = (predicates[slot] & ~mask) | (bits & mask);
  }

  // The host memory of an access, after all checks, or null where it may not be done. `Update` is for atomics.
  const uint8_t* Read(const Instruction& in, uint64_t address, uint32_t bytes, int lane);
  uint8_t* Write(const Instruction& in, uint64_t address, uint32_t bytes, int lane);
  uint8_t* Update(const Instruction& in, uint64_t address, uint32_t bytes, int lane);
  // cp.async.
  void CopyLater(const Instruction& in, uint32_t to, const uint8_t* data, uint32_t bytes, int lane);
  void CommitCopies(uint32_t mask);
  // Lands all groups but the last `left` of each lane; all copies, committed or not, where `left` is below 0.
  void LandCopies(const Instruction& in, uint32_t mask, int64_t left);
  // bar.warp.sync orders the lanes of `mask`.
  void OrderLanes(uint32_t mask);
  void Report(FindingKind kind, const Instruction& in, int lane, std::string message);

  const KernelProgram* kernel = nullptr;
  Launch* launch = nullptr;
  Block* block = nullptr;
  int index = 0;
  std::vector<uint64_t> registers;
  std::vector<uint32_t> predicates;
  // add.cc and its kin.
  uint32_t carry = 0;
  // Lanes that run, and those that have not exited.
  uint32_t group = 0;
  uint32_t live = 0;
  uint64_t instructions = 0;

  // --- For the block ---
  void Start(Block* owner, int number, uint32_t lanes);
  // Runs `steps` instructions, or until the state is another.
  WarpState Run(uint64_t steps);
  // After the barrier at which it is.
  void PassBarrier();
  const Instruction& AtBarrier() const { return kernel->code[lane_pc_[std::countr_zero(live)]]; }
  Stamp Now(int lane) const { return clock << kThreadBits | static_cast<uint32_t>(index * kLanes + lane); }
  // All lanes' accesses so far are ordered before what follows.
  void OrderAll() { lane_floor = clock++; }

  // Grows at every barrier of the block or the warp.
  uint32_t clock = 1;
  uint32_t lane_floor = 0;
  // Lanes that stored something since the last barrier, and those of them that have exited.
  uint32_t stored = 0;
  uint32_t exited_after_store = 0;

 private:
  friend class Block;
  enum class Use : uint8_t { kRead, kWrite, kUpdate };

  uint8_t* Access(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use);
  uint8_t* AccessGlobal(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use);
  uint8_t* AccessShared(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use);
  uint8_t* AccessLocal(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use);
  uint8_t* AccessParam(const Instruction& in, uint64_t address, uint32_t bytes, int lane, Use use);
  void CheckGlobalRace(const Instruction& in, Allocation& allocation, uint64_t offset, uint32_t bytes, int lane,
                       Use use);
  void CheckShared(const Instruction& in, uint32_t offset, uint32_t bytes, int lane, Use use);
  // Whether an access is ordered before what `lane` does now.
  bool Ordered(Stamp stamp, int lane) const;
  void RecordRead(SharedByte& byte, Stamp now) const;
  bool CheckStates(const Instruction& in, uint8_t* states, uint32_t bytes, int lane, Use use, std::string_view memory);

  bool Step();
  void ExecuteNow(const Instruction& in, uint32_t mask);
  void CheckSources(const Instruction& in, uint32_t mask);
  void MarkWritten(const Instruction& in, uint32_t mask);
  void Advance();
  void Jump(int32_t target);
  void Branch(const Instruction& in, uint32_t mask);
  void BranchByTable(const Instruction& in, uint32_t mask);
  void Call(const Instruction& in, uint32_t mask);
  void Return(const Instruction& in, uint32_t mask);
  void Exit(uint32_t mask);
  void Collective(const Instruction& in, uint32_t mask);
  void Wait(uint32_t mask);
  // Puts the running lanes aside.
  void Park();
  // Chooses lanes to run. False where none can.
  bool Select();
  // Whether waiting lanes could go on.
  bool Resolve();
  bool ResolveOne(int lane);
  void ReportStuck();
  void StopAll(WarpState state);

  WarpState state_ = WarpState::kReady;
  int32_t pc_ = 0;
  // The least program counter of other lanes that could run.
  int32_t next_pc_ = 0;
  uint32_t waiting_ = 0;
  int32_t lane_pc_[kLanes] = {};
  uint32_t lane_member_[kLanes] = {};
  std::vector<int32_t> lane_calls_[kLanes];
  uint32_t jumps_ = 0;
  bool rotate_ = false;
  bool rotated_ = false;
  std::vector<uint32_t> written_;
  std::vector<uint32_t> predicates_written_;
  std::vector<uint8_t> local_;
  std::vector<uint8_t> local_states_;
  uint32_t lane_seen_[kLanes][kLanes] = {};
  Allocation* last_allocation_ = nullptr;
  std::vector<PendingCopy> copies_;
  uint32_t copy_group_[kLanes] = {};
};

// Calls f(lane) for the lanes of the mask.
template <class F>
inline void ForLanes(uint32_t mask, F f) {
  if (mask == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_WARP_H_
