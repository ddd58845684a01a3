#include "tests/ptx/warp.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tests/ptx/block.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/text.h"

namespace baton::ptx {
namespace {

constexpr int32_t kNoPc = std::numeric_limits<int32_t>::max();
// Jumps backward that some lanes make before others that could run get their turn, so that a lane may spin for another.
constexpr uint32_t kMostJumps = 5000;

std::string LaneList(uint32_t mask) {
  std::string text = "lanes";
  ForLanes(mask, [&](int lane) { text += Text(" ", lane); });
  return text;
}

}  // namespace

void Warp::Start(Block* owner, int number, uint32_t lanes) {
  block = owner;
  launch = &owner->launch();
  kernel = launch->kernel;
  index = number;
  live = lanes;
  group = waiting = stored = exited_after_store = carry = lane_floor = jumps = 0;
  rotate = rotated = false;
  clock = 1;
  instructions = 0;
  state = WarpState::kReady;
  last_allocation = nullptr;
  std::fill(lane_pc, lane_pc + kLanes, kernel->entry);
  std::fill(copy_group, copy_group + kLanes, 0U);
  std::fill(&lane_seen[0][0], &lane_seen[0][0] + kLanes * kLanes, 0U);
  for (auto& calls : lane_calls) calls.clear();
  copies.clear();
  registers.assign(static_cast<size_t>(kernel->registers) * kLanes, 0xdeadbeefdeadbeef);
  written.assign(kernel->registers, 0);
  predicates.assign(kernel->predicates, 0);
  predicates_written.assign(kernel->predicates, 0);
  predicates[kTrue] = predicates_written[kFalse] = predicates_written[kTrue] = kAllLanes;
  local.assign(kernel->local_layout.size() * kLanes, 0xcd);
  local_states.clear();
  for (int lane = 0; lane < kLanes; ++lane) {
    local_states.insert(local_states.end(), kernel->local_layout.begin(), kernel->local_layout.end());
  }
}

WarpState Warp::Run(uint64_t steps) {
  while (state == WarpState::kReady && steps-- > 0) {
    if (group == 0 && !Select()) break;
    if (!Step()) break;
  }
  return state;
}

bool Warp::Step() {
  const Instruction& in = kernel->code[pc];
  if ((group & ~predicates_written[in.guard.slot]) != 0) {
    Report(FindingKind::kUninitialized, in, std::countr_zero(group), "the guard was never written");
    predicates_written[in.guard.slot] |= group;
  }
  const uint32_t mask = group & Bits(in.guard);
  switch (in.flow) {
    case Flow::kNext:
      if (mask != 0) ExecuteNow(in, mask);
      Advance();
      return true;
    case Flow::kBranch:
      Branch(in, mask);
      return true;
    case Flow::kBranchTable:
      BranchByTable(in, mask);
      return true;
    case Flow::kCall:
      Call(in, mask);
      return true;
    case Flow::kReturn:
      Return(in, mask);
      return true;
    case Flow::kExit:
      Exit(mask);
      return true;
    case Flow::kCollective:
    case Flow::kWarpBarrier:
      Collective(in, mask);
      return true;
    case Flow::kBarrier:
      CheckSources(in, mask);
      Wait(mask);
      return true;
  }
  return false;
}

void Warp::ExecuteNow(const Instruction& in, uint32_t mask) {
  CheckSources(in, mask);
  instructions += static_cast<uint64_t>(std::popcount(mask));
  if ((in.flags & kStores) != 0) stored |= mask;
  in.execute(*this, in, mask);
  MarkWritten(in, mask);
}

void Warp::CheckSources(const Instruction& in, uint32_t mask) {
  if (!launch->options.check_uninitialized) return;
  for (int i = 0; i < in.sources; ++i) {
    const Slot slot = in.from[i];
    if (slot < 0 || (mask & ~written[slot]) == 0) continue;
    Report(FindingKind::kUninitialized, in, std::countr_zero(mask & ~written[slot]),
           Text("register ", kernel->register_names[slot], " was never written"));
    written[slot] |= mask;
  }
  for (int i = 0; i < in.predicate_sources; ++i) {
    uint32_t& known = predicates_written[in.predicate_from[i].slot];
    if ((mask & ~known) == 0) continue;
    Report(FindingKind::kUninitialized, in, std::countr_zero(mask & ~known), "a predicate was never written");
    known |= mask;
  }
}

void Warp::MarkWritten(const Instruction& in, uint32_t mask) {
  for (int i = 0; i < in.destinations; ++i) written[in.to[i]] |= mask;
  for (int i = 0; i < in.predicate_destinations; ++i) predicates_written[in.predicate_to[i]] |= mask;
}

void Warp::Advance() {
  if (++pc == next_pc) Park();
}

void Warp::Jump(int32_t target) {
  const bool back = target <= pc;
  pc = target;
  const bool others = (live & ~waiting & ~group) != 0;
  if (!others) return;
  if (back && ++jumps > kMostJumps) {
    rotate = !rotated;
    Park();
  } else if (!rotated && pc >= next_pc) {
    Park();
  }
}

void Warp::Park() {
  ForLanes(group, [&](int lane) { lane_pc[lane] = pc; });
  group = 0;
}

void Warp::Branch(const Instruction& in, uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(group));
  if (mask == group) return Jump(in.target);
  if (mask == 0) return Advance();
  ForLanes(group & ~mask, [&](int lane) { lane_pc[lane] = pc + 1; });
  ForLanes(mask, [&](int lane) { lane_pc[lane] = in.target; });
  group = 0;
}

void Warp::BranchByTable(const Instruction& in, uint32_t mask) {
  CheckSources(in, mask);
  instructions += static_cast<uint64_t>(std::popcount(group));
  ForLanes(group & ~mask, [&](int lane) { lane_pc[lane] = pc + 1; });
  const std::vector<int32_t>& table = kernel->tables[in.target];
  ForLanes(mask, [&](int lane) {
    uint64_t at = From(in.from[0])[lane];
    if (at >= table.size()) {
      Report(FindingKind::kBadOperand, in, lane, "the index of a branch is beyond its table");
      at = 0;
    }
    lane_pc[lane] = table[at];
  });
  group = 0;
}

void Warp::Call(const Instruction& in, uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(mask));
  const CallSite& site = kernel->calls[in.target];
  const size_t frame = kernel->local_layout.size();
  ForLanes(group, [&](int lane) { lane_pc[lane] = pc + 1; });
  ForLanes(mask, [&](int lane) {
    for (const Copy& copy : site.arguments) {
      std::copy_n(local.data() + lane * frame + copy.from, copy.bytes, local.data() + lane * frame + copy.to);
      std::copy_n(local_states.data() + lane * frame + copy.from, copy.bytes,
                  local_states.data() + lane * frame + copy.to);
    }
    lane_calls[lane].push_back(pc);
    lane_pc[lane] = site.target;
  });
  group = 0;
}

void Warp::Return(const Instruction& in, uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(mask));
  const size_t frame = kernel->local_layout.size();
  uint32_t exits = 0;
  ForLanes(group, [&](int lane) { lane_pc[lane] = pc + 1; });
  ForLanes(mask, [&](int lane) {
    if (lane_calls[lane].empty()) {
      exits |= 1U << lane;
      return;
    }
    const int32_t call = lane_calls[lane].back();
    lane_calls[lane].pop_back();
    for (const Copy& copy : kernel->calls[kernel->code[call].target].results) {
      std::copy_n(local.data() + lane * frame + copy.from, copy.bytes, local.data() + lane * frame + copy.to);
      std::copy_n(local_states.data() + lane * frame + copy.from, copy.bytes,
                  local_states.data() + lane * frame + copy.to);
    }
    lane_pc[lane] = call + 1;
  });
  group = 0;
  live &= ~exits;
  exited_after_store |= exits & stored;
}

void Warp::Exit(uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(mask));
  live &= ~mask;
  exited_after_store |= mask & stored;
  group &= ~mask;
  if (group != 0) Advance();
}

void Warp::Wait(uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(mask));
  ForLanes(mask, [&](int lane) { lane_pc[lane] = pc; });
  waiting |= mask;
  group &= ~mask;
  if (group != 0) Advance();
}

void Warp::Collective(const Instruction& in, uint32_t mask) {
  const uint64_t* members = From(in.member);
  bool at_once = true;
  ForLanes(mask, [&](int lane) {
    lane_member[lane] = static_cast<uint32_t>(members[lane]);
    if ((lane_member[lane] >> lane & 1) == 0) {
      Report(FindingKind::kWrongMask, in, lane, Text("lane ", lane, " is not in its own mask"));
      lane_member[lane] |= 1U << lane;
    }
    at_once = at_once && lane_member[lane] == mask;
  });
  if (at_once) {
    if (mask != 0) ExecuteNow(in, mask);
    return Advance();
  }
  Wait(mask);
  // Lanes that are released change what runs next.
  if (Resolve() && group != 0) Park();
}

bool Warp::Resolve() {
  bool any = false;
  uint32_t tried = 0;
  for (uint32_t left = waiting; left != 0; left &= ~tried) {
    const int lane = std::countr_zero(left);
    tried |= 1U << lane;
    any = ResolveOne(lane) || any;
    left &= waiting;
  }
  return any;
}

bool Warp::ResolveOne(int lane) {
  const Instruction& in = kernel->code[lane_pc[lane]];
  if (in.flow == Flow::kBarrier) return false;
  uint32_t there = 0;
  ForLanes(waiting, [&](int other) {
    const bool same_place = in.flow == Flow::kCollective ? lane_pc[other] == lane_pc[lane]
                                                         : kernel->code[lane_pc[other]].flow == Flow::kWarpBarrier;
    if (same_place && lane_member[other] == lane_member[lane]) there |= 1U << other;
  });
  const uint32_t member = lane_member[lane];
  if ((member & live & ~there) != 0) return false;
  if (in.flow == Flow::kCollective && (member & ~live) != 0) {
    Report(FindingKind::kAbsentLanes, in, lane,
           Text("the mask names ", LaneList(member & ~live), ", which have exited"));
  }
  ExecuteNow(in, there);
  waiting &= ~there;
  ForLanes(there, [&](int other) { ++lane_pc[other]; });
  return true;
}

bool Warp::Select() {
  uint32_t runnable = live & ~waiting;
  while (runnable == 0) {
    if (live == 0) {
      state = WarpState::kExited;
      return false;
    }
    if (Resolve()) {
      runnable = live & ~waiting;
      continue;
    }
    const int32_t first = lane_pc[std::countr_zero(live)];
    bool same = true;
    ForLanes(live, [&](int lane) { same = same && lane_pc[lane] == first; });
    const bool barrier = same && kernel->code[first].flow == Flow::kBarrier;
    if (!barrier) ReportStuck();
    state = barrier ? WarpState::kAtBarrier : WarpState::kStuck;
    return false;
  }
  int32_t least = kNoPc;
  ForLanes(runnable, [&](int lane) { least = std::min(least, lane_pc[lane]); });
  int32_t second = kNoPc;
  ForLanes(runnable, [&](int lane) {
    if (lane_pc[lane] != least) second = std::min(second, lane_pc[lane]);
  });
  rotated = rotate && second != kNoPc;
  rotate = false;
  jumps = 0;
  pc = rotated ? second : least;
  next_pc = rotated ? kNoPc : second;
  ForLanes(runnable, [&](int lane) { group |= lane_pc[lane] == pc ? 1U << lane : 0; });
  return true;
}

void Warp::ReportStuck() {
  std::string text;
  bool all_barriers = true;
  for (uint32_t left = live; left != 0;) {
    const int32_t at = lane_pc[std::countr_zero(left)];
    uint32_t same = 0;
    ForLanes(left, [&](int lane) { same |= lane_pc[lane] == at ? 1U << lane : 0; });
    all_barriers = all_barriers && kernel->code[at].flow == Flow::kBarrier;
    text += Text(text.empty() ? "" : ", ", LaneList(same), " wait at line ", kernel->code[at].line);
    left &= ~same;
  }
  int lane = std::countr_zero(live);
  ForLanes(live, [&](int other) {
    if (kernel->code[lane_pc[other]].flow == Flow::kBarrier) lane = other;
  });
  const Instruction& in = kernel->code[lane_pc[lane]];
  const bool barrier = in.flow == Flow::kBarrier;
  Report(barrier ? FindingKind::kDivergentBarrier : FindingKind::kAbsentLanes, in, lane,
         Text("lanes of a warp wait for each other for ever: ", text));
}

void Warp::PassBarrier() {
  ForLanes(live, [&](int lane) { ++lane_pc[lane]; });
  waiting = 0;
  group = 0;
  stored = 0;
  state = WarpState::kReady;
}

void Warp::OrderLanes(uint32_t mask) {
  if ((live & ~mask) == 0) return OrderAll();
  // Each lane of the mask learns what any of them knew.
  uint32_t joined[kLanes] = {};
  ForLanes(mask, [&](int lane) {
    for (int of = 0; of < kLanes; ++of) joined[of] = std::max(joined[of], lane_seen[lane][of]);
  });
  ForLanes(mask, [&](int lane) { joined[lane] = clock; });
  ForLanes(mask, [&](int lane) { std::copy(joined, joined + kLanes, lane_seen[lane]); });
  ++clock;
}

void Warp::Report(FindingKind kind, const Instruction& in, int lane, std::string message) {
  Finding finding;
  finding.kind = kind;
  finding.kernel = kernel->name;
  finding.line = in.line;
  const auto& lines = *kernel->lines;
  if (in.line >= 1 && static_cast<size_t>(in.line) <= lines.size()) {
    finding.source = lines[in.line - 1];
    finding.source.erase(0, finding.source.find_first_not_of(" \t"));
    std::replace(finding.source.begin(), finding.source.end(), '\t', ' ');
  }
  finding.block = block->index();
  finding.thread = block->Thread(index, lane);
  finding.message = std::move(message);
  launch->findings->Add(std::move(finding));
}

}  // namespace baton::ptx
