#include "grammar/parse_states.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "grammar/grammar_limits.h"

namespace baton::grammar {
namespace {

uint64_t MixDigest(uint64_t digest, uint64_t value) {
  uint64_t mixed = (digest ^ value) * 0x9E3779B97F4A7C15u;
  mixed ^= mixed >> 32;
  mixed *= 0xD6E8FEB86659FD93u;
  return mixed ^ mixed >> 29;
}

// How much longer it takes to compute what may follow a position than to look at a node of the vocabulary.
constexpr int64_t kStepsPerPosition = 8;

// What hash tables take for an entry, roughly.
constexpr size_t kEntryBytes = 64;

}  // namespace

ParseStates::ParseStates(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)),
      form_(grammar_->form()),
      num_classes_(form_.num_classes),
      byte_of_class_(num_classes_) {
  for (size_t byte = 0; byte < form_.class_of_byte.size(); ++byte) {
    byte_of_class_[form_.class_of_byte[byte]] = static_cast<uint8_t>(byte);
  }
  Clear();
}

void ParseStates::Clear() {
  stacks_ = {{-1, -1, 0, 0}, {-1, -1, 0, 1}};
  stack_ids_.clear();
  positions_.clear();
  configurations_.clear();
  transitions_.clear();
  by_digest_.clear();
  memory_bytes_ = 0;
  Reach(form_.start, kBottom);
  start_ = Close();
}

int32_t ParseStates::StateAfter(int32_t state, uint8_t byte) const {
  const auto end = form_.states[state + 1].first_byte;
  for (int32_t i = form_.states[state].first_byte; i < end; ++i) {
    if (byte < form_.bytes[i].low) break;
    if (byte <= form_.bytes[i].high) return form_.bytes[i].to;
  }
  return -1;
}

int32_t ParseStates::ComputeStep(int32_t configuration, uint8_t byte, size_t at) {
  const int32_t first = configurations_[configuration].first_position;
  const int32_t end = first + configurations_[configuration].num_positions;
  for (int32_t i = first; i < end; ++i) {
    const int32_t to = StateAfter(positions_[i].state, byte);
    if (to >= 0) Reach(to, positions_[i].stack);
  }
  const int32_t next = Close();
  transitions_[at] = next;
  return next;
}

int32_t ParseStates::Push(int32_t state, int32_t parent) {
  const auto [it, is_new] = stack_ids_.try_emplace({state, parent}, static_cast<int32_t>(stacks_.size()));
  if (is_new) {
    const Stack& below = stacks_[parent];
    stacks_.push_back({state, parent, below.depth + 1, MixDigest(below.digest, static_cast<uint64_t>(state) + 1)});
    memory_bytes_ += sizeof(Stack) + kEntryBytes;
  }
  return it->second;
}

bool ParseStates::Fits(int32_t state, int32_t stack) {
  // What could not be completed without nesting too deep is no way to go on.
  const int32_t height = stacks_[stack].depth + form_.states[state].need;
  height_ = std::max(height_, height);
  return height <= kMaxStackDepth;
}

void ParseStates::Reach(int32_t state, int32_t stack) {
  if (!Fits(state, stack)) return;
  if (seen_.size() >= kMaxClosure) {
    height_ = kTooHigh;
    return;
  }
  if (seen_.insert({state, stack}).second) reached_.push_back({state, stack});
}

int32_t ParseStates::Close() {
  bool is_complete = false;
  bool leaves = false;
  ways_.clear();
  while (!reached_.empty()) {
    const Position at = reached_.back();
    reached_.pop_back();
    const GrammarForm::State& state = form_.states[at.state];
    const GrammarForm::State& end = form_.states[at.state + 1];
    if (state.first_byte < end.first_byte) ways_.push_back(at);
    if (state.is_final) {
      is_complete |= at.stack == kBottom;
      leaves |= at.stack == kOpenBottom;
      const Stack top = stacks_[at.stack];
      if (top.parent >= 0) Reach(top.state, top.parent);
    }
    for (int32_t i = state.first_call; i < end.first_call; ++i) {
      const auto [start, to] = form_.calls[i];
      if (to < 0) {
        Reach(start, at.stack);
      } else if (Fits(to, at.stack)) {
        Reach(start, Push(to, at.stack));
      }
    }
  }
  Spend(kStepsPerPosition * static_cast<int64_t>(seen_.size()));
  if (is_unwanted_ != nullptr && is_unwanted_()) Allow(-1);
  seen_.clear();
  int32_t configuration = kDead;
  if (!ways_.empty() || is_complete || leaves) {
    KeepShallowest();
    configuration = Intern(is_complete, leaves);
  }
  height_ = 0;
  return configuration;
}

uint64_t ParseStates::DigestOf(const Position& position) const {
  return MixDigest(stacks_[position.stack].digest, static_cast<uint64_t>(position.state));
}

void ParseStates::KeepShallowest() {
  if (ways_.size() <= 1) return;
  std::sort(ways_.begin(), ways_.end(), [this](const Position& a, const Position& b) {
    const Stack& of_a = stacks_[a.stack];
    const Stack& of_b = stacks_[b.stack];
    return std::tie(of_a.depth, a.state, of_a.digest) < std::tie(of_b.depth, b.state, of_b.digest);
  });
  if (ways_.size() > kMaxStacks) {
    ways_.resize(kMaxStacks);
    height_ = kTooHigh;
  }
}

int32_t ParseStates::Intern(bool is_complete, bool leaves) {
  uint64_t digest = (is_complete ? 1 : 0) + (leaves ? 2 : 0);
  for (const Position& way : ways_) digest = MixDigest(digest, DigestOf(way));
  std::vector<int32_t>& same_digest = by_digest_[digest];
  for (const int32_t id : same_digest) {
    Configuration& old = configurations_[id];
    const auto first = positions_.begin() + old.first_position;
    if (old.is_complete == is_complete && old.leaves == leaves &&
        std::equal(ways_.begin(), ways_.end(), first, first + old.num_positions)) {
      old.height = std::max(old.height, height_);
      return id;
    }
  }
  const auto id = static_cast<int32_t>(configurations_.size());
  same_digest.push_back(id);
  configurations_.push_back(
      {static_cast<int32_t>(positions_.size()), static_cast<int32_t>(ways_.size()), height_, is_complete, leaves});
  positions_.insert(positions_.end(), ways_.begin(), ways_.end());
  transitions_.resize(transitions_.size() + num_classes_, kUnknown);
  memory_bytes_ +=
      sizeof(Configuration) + sizeof(Position) * ways_.size() + sizeof(int32_t) * num_classes_ + kEntryBytes;
  return id;
}

int32_t ParseStates::WithoutContext(int32_t configuration) {
  const Configuration& whole = configurations_[configuration];
  if (whole.num_positions != 1 || whole.is_complete) return kDead;
  Reach(positions_[whole.first_position].state, kOpenBottom);
  return Close();
}

int32_t ParseStates::depth(int32_t configuration) const {
  return stacks_[positions_[configurations_[configuration].first_position].stack].depth;
}

void ParseStates::Retain(absl::Span<int32_t> configurations) {
  const std::vector<Stack> old_stacks = std::move(stacks_);
  const std::vector<Position> old_positions = std::move(positions_);
  const std::vector<Configuration> old_configurations = std::move(configurations_);
  Clear();
  std::vector<int32_t> new_stacks(old_stacks.size(), -1);
  new_stacks[kBottom] = kBottom;
  new_stacks[kOpenBottom] = kOpenBottom;
  // A parent has a smaller number than its stacks, so walking down ends at one that is known.
  const auto copy_stack = [&](int32_t stack) {
    std::vector<int32_t> unknown;
    for (; new_stacks[stack] < 0; stack = old_stacks[stack].parent) unknown.push_back(stack);
    for (; !unknown.empty(); unknown.pop_back()) {
      const int32_t id = Push(old_stacks[unknown.back()].state, new_stacks[stack]);
      new_stacks[unknown.back()] = id;
      stack = unknown.back();
    }
    return new_stacks[stack];
  };
  for (int32_t& id : configurations) {
    if (id == kDead) continue;
    const Configuration& old = old_configurations[id];
    ways_.clear();
    for (int32_t i = old.first_position; i < old.first_position + old.num_positions; ++i) {
      ways_.push_back({old_positions[i].state, copy_stack(old_positions[i].stack)});
    }
    height_ = old.height;
    id = Intern(old.is_complete, old.leaves);
    height_ = 0;
  }
}

}  // namespace baton::grammar
