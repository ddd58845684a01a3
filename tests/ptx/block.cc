#include "tests/ptx/block.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

uint32_t Component(const std::array<uint32_t, 3>& of, std::string_view name) { return of[name.back() - 'x']; }

uint64_t SpecialValue(std::string_view name, const Block& block, const Launch& launch, int warp, int lane) {
  if (name.starts_with("tid.")) return Component(block.Thread(warp, lane), name);
  if (name.starts_with("ntid.")) return Component(launch.block, name);
  if (name.starts_with("ctaid.")) return Component(block.index(), name);
  if (name.starts_with("nctaid.")) return Component(launch.grid, name);
  if (name == "laneid") return static_cast<uint64_t>(lane);
  if (name == "warpid") return static_cast<uint64_t>(warp);
  if (name == "nwarpid") return (launch.Threads() + kLanes - 1) / kLanes;
  const uint32_t bit = 1U << lane;
  if (name == "lanemask_eq") return bit;
  if (name == "lanemask_lt") return bit - 1;
  if (name == "lanemask_le") return bit | (bit - 1);
  if (name == "lanemask_gt") return ~(bit | (bit - 1));
  if (name == "lanemask_ge") return ~(bit - 1);
  if (name == "nsmid") return 1;
  if (name == "dynamic_smem_size") return launch.dynamic_shared;
  if (name == "total_smem_size") return launch.dynamic_shared + launch.kernel->static_shared;
  return 0;
}

}  // namespace

std::array<uint32_t, 3> Block::Thread(int warp, int lane) const {
  const auto thread = static_cast<uint32_t>(warp * kLanes + lane);
  const auto& size = launch_.block;
  return {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
}

void Block::Run(uint64_t number) {
  number_ = number;
  const auto& grid = launch_.grid;
  index_ = {static_cast<uint32_t>(number % grid[0]), static_cast<uint32_t>(number / grid[0] % grid[1]),
            static_cast<uint32_t>(number / grid[0] / grid[1])};
  shared_.Reset(launch_.kernel->shared_layout, launch_.dynamic_shared, launch_.options.check_shared_races);
  exited_ = at_barrier_ = 0;
  std::fill(std::begin(barriers_), std::end(barriers_), Barrier{});
  std::fill(&seen_[0][0], &seen_[0][0] + kMostWarps * kMostWarps, 0U);
  const uint32_t threads = launch_.Threads();
  const uint32_t count = (threads + kLanes - 1) / kLanes;
  warps_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t lanes = std::min<uint32_t>(kLanes, threads - i * kLanes);
    warps_[i].Start(this, static_cast<int>(i), lanes == kLanes ? kAllLanes : (1U << lanes) - 1);
    for (const auto& [name, slot] : launch_.kernel->specials) {
      for (int lane = 0; lane < kLanes; ++lane) {
        warps_[i].To(slot)[lane] = SpecialValue(name, *this, launch_, static_cast<int>(i), lane);
      }
      warps_[i].written_[slot] = kAllLanes;
    }
  }
  std::mt19937_64 random(launch_.options.seed * 0x9E3779B97F4A7C15 + number);
  const uint32_t all = count == 32 ? kAllLanes : (1U << count) - 1;
  while (!launch_.stopped.load(std::memory_order_relaxed) && exited_ != all) {
    const uint32_t ready = all & ~exited_ & ~at_barrier_;
    if (ready == 0) return ReportStuck();
    uint32_t skipped = static_cast<uint32_t>(random() % static_cast<uint64_t>(std::popcount(ready)));
    uint32_t left = ready;
    while (skipped-- > 0) left &= left - 1;
    Warp& warp = warps_[std::countr_zero(left)];
    const uint64_t before = warp.instructions;
    const WarpState state = warp.Run(1 + random() % 256);
    const uint64_t so_far = launch_.instructions.fetch_add(warp.instructions - before, std::memory_order_relaxed);
    if (so_far > launch_.options.most_instructions) {
      warp.Report(FindingKind::kTooLong, launch_.kernel->code[warp.pc_], 0, Text(so_far, " instructions of lanes"));
      launch_.stopped = true;
    }
    if (state == WarpState::kStuck) launch_.stopped = true;
    if (state == WarpState::kExited) exited_ |= 1U << warp.index;
    if (state == WarpState::kAtBarrier && !Arrive(warp)) launch_.stopped = true;
    if (state == WarpState::kExited || state == WarpState::kAtBarrier) CompleteBarriers();
  }
}

bool Block::Arrive(Warp& warp) {
  const Instruction& in = warp.AtBarrier();
  const int lane = std::countr_zero(warp.live);
  const uint64_t id = warp.From(in.from[0])[lane];
  const uint64_t threads = in.sources > 1 ? warp.From(in.from[1])[lane] : 0;
  if (id >= kBarriers || threads % kLanes != 0 || threads > launch_.Threads() + kLanes - 1) {
    warp.Report(FindingKind::kBadOperand, in, lane, Text("barrier ", id, " of ", threads, " threads"));
    return false;
  }
  Barrier& barrier = barriers_[id];
  if (barrier.arrived != 0 && barrier.expected != threads) {
    warp.Report(FindingKind::kDivergentBarrier, in, lane,
                Text("barrier ", id, " has ", threads, " threads here and ", barrier.expected, " elsewhere"));
    return false;
  }
  barrier.expected = static_cast<uint32_t>(threads);
  barrier.threads += kLanes;
  barrier.arrived |= 1U << warp.index;
  if ((in.flags & kArriveOnly) != 0) {
    warp.OrderAll();
    warp.PassBarrier();
    return true;
  }
  barrier.waiting |= 1U << warp.index;
  at_barrier_ |= 1U << warp.index;
  return true;
}

void Block::CompleteBarriers() {
  const uint32_t all = warps_.size() == 32 ? kAllLanes : (1U << warps_.size()) - 1;
  for (Barrier& barrier : barriers_) {
    if (barrier.arrived == 0) continue;
    const bool complete =
        barrier.expected != 0 ? barrier.threads >= barrier.expected : ((barrier.arrived | exited_) & all) == all;
    if (complete) Complete(barrier);
  }
}

void Block::Complete(Barrier& barrier) {
  if (barrier.expected == 0) CheckExited(barrier);
  Reduce(barrier);
  OrderWarps(barrier);
  for (uint32_t left = barrier.waiting; left != 0; left &= left - 1) warps_[std::countr_zero(left)].PassBarrier();
  at_barrier_ &= ~barrier.waiting;
  barrier = {};
}

// Threads that leave early are excused where they have done nothing since the last barrier.
void Block::CheckExited(const Barrier& barrier) {
  for (Warp& warp : warps_) {
    const uint32_t gone = std::exchange(warp.exited_after_store, 0U);
    if (gone == 0 || barrier.waiting == 0 || !launch_.options.check_exited_threads) continue;
    Warp& waits = warps_[std::countr_zero(barrier.waiting)];
    const auto thread = warp.index * kLanes + std::countr_zero(gone);
    waits.Report(FindingKind::kDivergentBarrier, waits.AtBarrier(), std::countr_zero(waits.live),
                 Text("thread ", thread, " stored something and exited without this barrier"));
  }
}

void Block::Reduce(const Barrier& barrier) {
  uint32_t count = 0;
  bool all = true;
  for (uint32_t left = barrier.waiting; left != 0; left &= left - 1) {
    Warp& warp = warps_[std::countr_zero(left)];
    const Instruction& in = warp.AtBarrier();
    if (in.predicate_sources == 0) return;
    const uint32_t bits = warp.Bits(in.predicate_from[0]) & warp.live;
    count += static_cast<uint32_t>(std::popcount(bits));
    all = all && bits == warp.live;
  }
  for (uint32_t left = barrier.waiting; left != 0; left &= left - 1) {
    Warp& warp = warps_[std::countr_zero(left)];
    const Instruction& in = warp.AtBarrier();
    if (in.destinations > 0) ForLanes(warp.live, [&](int lane) { warp.To(in.to[0])[lane] = count; });
    // `extra` is 1 for .and, 0 for .or.
    const bool value = in.extra == 1 ? all : count > 0;
    if (in.predicate_destinations > 0) warp.SetPredicate(in.predicate_to[0], warp.live, value ? kAllLanes : 0);
    warp.MarkWritten(in, warp.live);
  }
}

void Block::OrderWarps(const Barrier& barrier) {
  uint32_t joined[kMostWarps] = {};
  for (uint32_t left = barrier.arrived; left != 0; left &= left - 1) {
    const int warp = std::countr_zero(left);
    for (int of = 0; of < kMostWarps; ++of) joined[of] = std::max(joined[of], seen_[warp][of]);
    const bool waits = (barrier.waiting >> warp & 1) != 0;
    // One that only arrives has ordered what came before; it went on with a new clock.
    joined[warp] = std::max(joined[warp], waits ? warps_[warp].clock : warps_[warp].lane_floor);
  }
  for (uint32_t left = barrier.waiting; left != 0; left &= left - 1) {
    const int warp = std::countr_zero(left);
    std::copy(joined, joined + kMostWarps, seen_[warp]);
    warps_[warp].OrderAll();
  }
}

void Block::ReportStuck() {
  launch_.stopped = true;
  for (uint32_t left = at_barrier_; left != 0; left &= left - 1) {
    Warp& warp = warps_[std::countr_zero(left)];
    warp.Report(FindingKind::kDivergentBarrier, warp.AtBarrier(), std::countr_zero(warp.live),
                Text("warp ", warp.index, " waits at this barrier for ever"));
  }
}

}  // namespace baton::ptx
