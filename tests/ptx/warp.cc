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
  group = waiting_ = stored = exited_after_store = carry = lane_floor = jumps_ = 0;
  rotate_ = rotated_ = false;
  clock = 1;
  instructions = 0;
  state_ = WarpState::kReady;
  last_allocation_ = nullptr;
  std::fill(lane_pc_, lane_pc_ + kLanes, kernel->entry);
  std::fill(copy_group_, copy_group_ + kLanes, 0U);
  std::fill(&lane_seen_[0][0], &lane_seen_[0][0] + kLanes * kLanes, 0U);
  for (auto& calls : lane_calls_) calls.clear();
  copies_.clear();
  registers.assign(static_cast<size_t>(kernel->registers) * kLanes, 0xdeadbeefdeadbeef);
  written_.assign(kernel->registers, 0);
  predicates.assign(kernel->predicates, 0);
  predicates_written_.assign(kernel->predicates, 0);
  predicates[kTrue] = predicates_written_[kFalse] = predicates_written_[kTrue] = kAllLanes;
  local_.assign(kernel->local_layout.size() * kLanes, 0xcd);
  local_states_.clear();
  for (int lane = 0; lane < kLanes; ++lane) {
    local_states_.insert(local_states_.end(), kernel->local_layout.begin(), kernel->local_layout.end());
  }
}

WarpState Warp::Run(uint64_t steps) {
  while (state_ == WarpState::kReady && steps-- > 0) {
    if (group == 0 && !Select()) break;
    if (!Step()) break;
  }
  return state_;
}

bool Warp::Step() {
  const Instruction& in = kernel->code[pc_];
  if ((group & ~predicates_written_[in.guard.slot]) != 0) {
    Report(FindingKind::kUninitialized, in, std::countr_zero(group), "the guard was never written");
    predicates_written_[in.guard.slot] |= group;
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
    if (slot < 0 || (mask & ~written_[slot]) == 0) continue;
    Report(FindingKind::kUninitialized, in, std::countr_zero(mask & ~written_[slot]),
           Text("register ", kernel->register_names[slot], " was never written"));
    written_[slot] |= mask;
  }
  for (int i = 0; i < in.predicate_sources; ++i) {
    uint32_t& known = predicates_written_[in.predicate_from[i].slot];
    if ((mask & ~known) == 0) continue;
    Report(FindingKind::kUninitialized, in, std::countr_zero(mask & ~known), "a predicate was never written");
    known |= mask;
  }
}

void Warp::MarkWritten(const Instruction& in, uint32_t mask) {
  for (int i = 0; i < in.destinations; ++i) written_[in.to[i]] |= mask;
  for (int i = 0; i < in.predicate_destinations; ++i) predicates_written_[in.predicate_to[i]] |= mask;
}

void Warp::Advance() {
  if (++pc_ == next_pc_) Park();
}

void Warp::Jump(int32_t target) {
  const bool back = target <= pc_;
  pc_ = target;
  const bool others = (live & ~waiting_ & ~group) != 0;
  if (!others) return;
  if (back && ++jumps_ > kMostJumps) {
    rotate_ = !rotated_;
    Park();
  } else if (!rotated_ && pc_ >= next_pc_) {
    Park();
  }
}

void Warp::Park() {
  ForLanes(group, [&](int lane) { lane_pc_[lane] = pc_; });
  group = 0;
}

void Warp::Branch(const Instruction& in, uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(group));
  if (mask == group) return Jump(in.target);
  if (mask == 0) return Advance();
  ForLanes(group & ~mask, [&](int lane) { lane_pc_[lane] = pc_ + 1; });
  ForLanes(mask, [&](int lane) { lane_pc_[lane] = in.target; });
  group = 0;
}

void Warp::BranchByTable(const Instruction& in, uint32_t mask) {
  CheckSources(in, mask);
  instructions += static_cast<uint64_t>(std::popcount(group));
  ForLanes(group & ~mask, [&](int lane) { lane_pc_[lane] = pc_ + 1; });
  const std::vector<int32_t>& table = kernel->tables[in.target];
  ForLanes(mask, [&](int lane) {
    uint64_t at = From(in.from[0])[lane];
    if (at >= table.size()) {
      Report(FindingKind::kBadOperand, in, lane, "the index of a branch is beyond its table");
      at = 0;
    }
    lane_pc_[lane] = table[at];
  });
  group = 0;
}

void Warp::Call(const Instruction& in, uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(mask));
  const CallSite& site = kernel->calls[in.target];
  const size_t frame = kernel->local_layout.size();
  ForLanes(group, [&](int lane) { lane_pc_[lane] = pc_ + 1; });
  ForLanes(mask, [&](int lane) {
    for (const Copy& copy : site.arguments) {
      std::copy_n(local_.data() + lane * frame + copy.from, copy.bytes, local_.data() + lane * frame + copy.to);
      std::copy_n(local_states_.data() + lane * frame + copy.from, copy.bytes,
                  local_states_.data() + lane * frame + copy.to);
    }
    lane_calls_[lane].push_back(pc_);
    lane_pc_[lane] = site.target;
  });
  group = 0;
}

void Warp::Return(const Instruction& in, uint32_t mask) {
  instructions += static_cast<uint64_t>(std::popcount(mask));
  const size_t frame = kernel->local_layout.size();
  uint32_t exits = 0;
  ForLanes(group, [&](int lane) { lane_pc_[lane] = pc_ + 1; });
  ForLanes(mask, [&](int lane) {
    if (lane_calls_[lane].empty()) {
      exits |= 1U << lane;
      return;
    }
    const int32_t call = lane_calls_[lane].back();
    lane_calls_[lane].pop_back();
    for (const Copy& copy : kernel->calls[kernel->code[call].target].results) {
      std::copy_n(local_.data() + lane * frame + copy.from, copy.bytes, local_.data() + lane * frame + copy.to);
      std::copy_n(local_states_.data() + lane * frame + copy.from, copy.bytes,
                  local_states_.data() + lane * frame + copy.to);
    }
    lane_pc_[lane] = call + 1;
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
  ForLanes(mask, [&](int lane) { lane_pc_[lane] = pc_; });
  waiting_ |= mask;
  group &= ~mask;
  if (group != 0) Advance();
}

void Warp::Collective(const Instruction& in, uint32_t mask) {
  const uint64_t* members = From(in.member);
  bool at_once = true;
  ForLanes(mask, [&](int lane) {
    lane_member_[lane] = static_cast<uint32_t>(members[lane]);
    if ((lane_member_[lane] >> lane & 1) == 0) {
      Report(FindingKind::kWrongMask, in, lane, Text("lane ", lane, " is not in its own mask"));
      lane_member_[lane] |= 1U << lane;
    }
    at_once = at_once && lane_member_[lane] == mask;
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
  for (uint32_t left = waiting_; left != 0; left &= ~tried) {
    const int lane = std::countr_zero(left);
    tried |= 1U << lane;
    any = ResolveOne(lane) || any;
    left &= waiting_;
  }
  return any;
}

bool Warp::ResolveOne(int lane) {
  const Instruction& in = kernel->code[lane_pc_[lane]];
  if (in.flow == Flow::kBarrier) return false;
  uint32_t there = 0;
  ForLanes(waiting_, [&](int other) {
    const bool same_place = in.flow == Flow::kCollective ? lane_pc_[other] == lane_pc_[lane]
                                                         : kernel->code[lane_pc_[other]].flow == Flow::kWarpBarrier;
    if (same_place && lane_member_[other] == lane_member_[lane]) there |= 1U << other;
  });
  const uint32_t member = lane_member_[lane];
  if ((member & live & ~there) != 0) return false;
  if (in.flow == Flow::kCollective && (member & ~live) != 0) {
    Report(FindingKind::kAbsentLanes, in, lane,
           Text("the mask names ", LaneList(member & ~live), ", which have exited"));
  }
  ExecuteNow(in, there);
  waiting_ &= ~there;
  ForLanes(there, [&](int other) { ++lane_pc_[other]; });
  return true;
}

bool Warp::Select() {
  uint32_t runnable = live & ~waiting_;
  while (runnable == 0) {
    if (live == 0) {
      state_ = WarpState::kExited;
      return false;
    }
    if (Resolve()) {
      runnable = live & ~waiting_;
      continue;
    }
    const int32_t first = lane_pc_[std::countr_zero(live)];
    bool same = true;
    ForLanes(live, [&](int lane) { same = same && lane_pc_[lane] == first; });
    const bool barrier = same && kernel->code[first].flow == Flow::kBarrier;
    if (!barrier) ReportStuck();
    state_ = barrier ? WarpState::kAtBarrier : WarpState::kStuck;
    return false;
  }
  int32_t least = kNoPc;
  ForLanes(runnable, [&](int lane) { least = std::min(least, lane_pc_[lane]); });
  int32_t second = kNoPc;
  ForLanes(runnable, [&](int lane) {
    if (lane_pc_[lane] != least) second = std::min(second, lane_pc_[lane]);
  });
  rotated_ = rotate_ && second != kNoPc;
  rotate_ = false;
  jumps_ = 0;
  pc_ = rotated_ ? second : least;
  next_pc_ = rotated_ ? kNoPc : second;
  ForLanes(runnable, [&](int lane) { group |= lane_pc_[lane] == pc_ ? 1U << lane : 0; });
  return true;
}

void Warp::ReportStuck() {
  std::string text;
  bool all_barriers = true;
  for (uint32_t left = live; left != 0;) {
    const int32_t at = lane_pc_[std::countr_zero(left)];
    uint32_t same = 0;
    ForLanes(left, [&](int lane) { same |= lane_pc_[lane] == at ? 1U << lane : 0; });
    all_barriers = all_barriers && kernel->code[at].flow == Flow::kBarrier;
    text += Text(text.empty() ? "" : ", ", LaneList(same), " wait at line ", kernel->code[at].line);
    left &= ~same;
  }
  int lane = std::countr_zero(live);
  ForLanes(live, [&](int other) {
    if (kernel->code[lane_pc_[other]].flow == Flow::kBarrier) lane = other;
  });
  const Instruction& in = kernel->code[lane_pc_[lane]];
  const bool barrier = in.flow == Flow::kBarrier;
  Report(barrier ? FindingKind::kDivergentBarrier : FindingKind::kAbsentLanes, in, lane,
         Text("lanes of a warp wait for each other for ever: ", text));
}

void Warp::PassBarrier() {
  ForLanes(live, [&](int lane) { ++lane_pc_[lane]; });
  waiting_ = 0;
  group = 0;
  stored = 0;
  state_ = WarpState::kReady;
}

void Warp::OrderLanes(uint32_t mask) {
  if ((live & ~mask) == 0) return OrderAll();
  // Each lane of the mask learns what any of them knew.
  uint32_t joined[kLanes] = {};
  ForLanes(mask, [&](int lane) {
    for (int of = 0; of < kLanes; ++of) joined[of] = std::max(joined[of], lane_seen_[lane][of]);
  });
  ForLanes(mask, [&](int lane) { joined[lane] = clock; });
  ForLanes(mask, [&](int lane) { std::copy(joined, joined + kLanes, lane_seen_[lane]); });
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
