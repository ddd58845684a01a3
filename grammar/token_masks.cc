#include "grammar/token_masks.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/hash/hash.h"
#include "common/check.h"
#include "grammar/agreement.h"

namespace baton::grammar {
namespace {

// The one token of a mask, or -1.
int32_t OnlyToken(const std::vector<uint64_t>& words) {
  int32_t only = -1;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == 0) continue;
    if (only >= 0 || !std::has_single_bit(words[i])) return -1;
    only = static_cast<int32_t>(i * 64) + std::countr_zero(words[i]);
  }
  return only;
}

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

bool IsEmptyMask(const std::vector<uint64_t>& words) {
  return std::all_of(words.begin(), words.end(), [](uint64_t word) { return word == 0; });
}

void SetBit(int32_t token, std::vector<uint64_t>* words) { (*words)[token / 64] |= uint64_t{1} << (token % 64); }

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary,
                       size_t max_bytes)
    : vocabulary_(std::move(vocabulary)),
      max_bytes_(max_bytes),
      states_(std::move(grammar)),
      path_(vocabulary_->max_token_bytes() + 1, ParseStates::kDead) {
  ended_.words.assign((vocabulary_->size() + 63) / 64, 0);
  SetEos(&ended_.words);
  ended_.only = OnlyToken(ended_.words);
}

int32_t TokenMasks::OpenPlace() {
  const Place place = {states_.start(), /*has_ended=*/false, /*is_free=*/false};
  const auto free = std::find_if(places_.begin(), places_.end(), [](const Place& old) { return old.is_free; });
  if (free != places_.end()) {
    *free = place;
    return static_cast<int32_t>(free - places_.begin());
  }
  places_.push_back(place);
  return static_cast<int32_t>(places_.size()) - 1;
}

int32_t TokenMasks::CopyPlace(int32_t place) {
  const int32_t copy = OpenPlace();
  places_[copy] = places_[place];
  return copy;
}

bool TokenMasks::is_complete(int32_t place) const {
  return places_[place].has_ended || states_.is_complete(places_[place].configuration);
}

bool TokenMasks::Accept(int32_t place, int32_t token) {
  if (token < 0 || token >= vocabulary_->size()) return false;
  if (vocabulary_->is_eos(token)) {
    if (!is_complete(place) && !IsStuck(place)) return false;
    places_[place].has_ended = true;
    return true;
  }
  const std::string_view bytes = vocabulary_->bytes(token);
  if (bytes.empty() || places_[place].has_ended) return false;
  if (MemoryBytes() > max_bytes_) Drop(0);
  int32_t configuration = places_[place].configuration;
  for (const char byte : bytes) {
    configuration = states_.Step(configuration, static_cast<uint8_t>(byte));
    if (configuration == ParseStates::kDead) return false;
  }
  places_[place].configuration = configuration;
  return true;
}

bool TokenMasks::IsStuck(int32_t place) {
  int64_t steps = kNoBound;
  const Mask* const mask = TryMaskOf(place, steps);
  return mask != nullptr && mask->is_stuck;
}

const TokenMasks::Mask& TokenMasks::MaskOf(int32_t place) {
  int64_t steps = kNoBound;
  return *TryMaskOf(place, steps);
}

const TokenMasks::Mask* TokenMasks::TryMaskOf(int32_t place, int64_t& steps) {
  if (places_[place].has_ended) return &ended_;
  const int32_t configuration = places_[place].configuration;
  if (configuration < static_cast<int32_t>(mask_of_.size()) && mask_of_[configuration] >= 0) {
    return &masks_[mask_of_[configuration]];
  }
  states_.Allow(steps);
  bool is_reference = false;
  Mask mask = Compute(place, &is_reference);
  steps = states_.steps_left();
  states_.Allow(kNoBound);
  if (steps < 0) return nullptr;
  const int32_t id = Keep(std::move(mask));
  mask_of_.resize(states_.size(), -1);
  // Computing may have dropped configurations, and renamed this one.
  mask_of_[places_[place].configuration] = id;
  if (is_reference) Refer({places_[place].configuration, &masks_[id].words, nullptr});
  return &masks_[id];
}

TokenMasks::Mask TokenMasks::Compute(int32_t place, bool* is_reference) {
  ++num_computed_;
  Mask mask;
  if (!ComputeFromCommon(place, &mask.words)) {
    path_[0] = places_[place].configuration;
    *is_reference = WalkAll(&mask.words);
  }
  if (states_.is_spent()) return mask;
  const bool is_complete = states_.is_complete(places_[place].configuration);
  mask.is_stuck = !is_complete && IsEmptyMask(mask.words);
  if (is_complete || mask.is_stuck) SetEos(&mask.words);
  mask.only = OnlyToken(mask.words);
  return mask;
}

bool TokenMasks::ComputeFromCommon(int32_t place, std::vector<uint64_t>* words) {
  const int32_t without_context = states_.WithoutContext(places_[place].configuration);
  // Where rules may end at once, next to nothing is common.
  if (without_context == ParseStates::kDead || states_.leaves(without_context)) return false;
  const Common* const common = CommonOf(without_context);
  if (common == nullptr) return true;
  if (states_.depth(places_[place].configuration) + common->height > kMaxStackDepth) return false;
  *words = common->words;
  // Walking may drop what is kept.
  const std::vector<int32_t> open_nodes = common->open_nodes;
  path_[0] = places_[place].configuration;
  for (const int32_t node : open_nodes) {
    if (states_.is_spent()) break;
    FollowTo(node);
    Walk(node + 1, vocabulary_->nodes()[node].skip, /*known_bytes=*/0, words);
  }
  return true;
}

const TokenMasks::Common* TokenMasks::CommonOf(int32_t configuration) {
  if (const auto it = common_of_.find(configuration); it != common_of_.end()) return it->second.get();
  auto computed = std::make_unique<Common>();
  path_[0] = configuration;
  const bool is_reference = WalkAll(&computed->words, computed.get());
  if (states_.is_spent()) return nullptr;
  mask_bytes_ += computed->words.size() * sizeof(uint64_t) + computed->open_nodes.capacity() * sizeof(int32_t);
  const Common& common = *(common_of_[path_[0]] = std::move(computed));
  if (is_reference) Refer({path_[0], &common.words, &common});
  return &common;
}

bool TokenMasks::WalkAll(std::vector<uint64_t>* words, Common* common) {
  const int32_t known_bytes = TakeOver(words, common);
  if (known_bytes == 0) words->assign(ended_.words.size(), 0);
  Walk(0, vocabulary_->nodes().size(), known_bytes, words, common);
  return known_bytes == 0;
}

int32_t TokenMasks::TakeOver(std::vector<uint64_t>* words, Common* common) {
  const Reference* best = nullptr;
  Agreement most;
  for (const Reference& reference : references_) {
    if ((reference.common == nullptr) != (common == nullptr)) continue;
    const Agreement agreement = Agree(states_, reference.configuration, path_[0], kMaxAgreedBytes);
    if (agreement.bytes <= most.bytes) continue;
    best = &reference;
    most = agreement;
  }
  if (most.bytes < kMinAgreedBytes) return 0;
  ++num_shortened_;
  *words = vocabulary_->tokens_up_to(most.bytes);
  for (size_t i = 0; i < words->size(); ++i) (*words)[i] &= (*best->words)[i];
  if (common == nullptr) return most.bytes;
  common->height = std::max(most.height, best->common->height);
  for (const int32_t node : best->common->open_nodes) {
    if (vocabulary_->nodes()[node].depth <= most.bytes) common->open_nodes.push_back(node);
  }
  return most.bytes;
}

void TokenMasks::Refer(const Reference& reference) {
  if (references_.size() < kMaxMaskReferences) return references_.push_back(reference);
  references_[next_reference_] = reference;
  next_reference_ = (next_reference_ + 1) % kMaxMaskReferences;
}

void TokenMasks::Walk(size_t begin, size_t end, int32_t known_bytes, std::vector<uint64_t>* words, Common* common) {
  const absl::Span<const Vocabulary::Node> nodes = vocabulary_->nodes();
  for (size_t i = begin; i < end && !states_.is_spent();) {
    const Vocabulary::Node& node = nodes[i];
    states_.Spend(1);
    if (node.depth + node.below <= known_bytes) {
      i = node.skip;
      continue;
    }
    const int32_t next = states_.Step(path_[node.depth - 1], node.byte);
    if (next == ParseStates::kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth] = next;
    for (int32_t token = node.token; token >= 0; token = vocabulary_->next_alike(token)) SetBit(token, words);
    ++i;
    if (common != nullptr) {
      common->height = std::max(common->height, states_.height(next));
      if (states_.leaves(next) && node.skip > static_cast<int32_t>(i)) {
        if (node.depth > known_bytes) common->open_nodes.push_back(static_cast<int32_t>(i) - 1);
        i = node.skip;
      }
    }
    if (states_.MemoryBytes() > max_bytes_) Drop(node.depth + 1);
  }
}

void TokenMasks::FollowTo(int32_t node) {
  const absl::Span<const Vocabulary::Node> nodes = vocabulary_->nodes();
  int32_t below = node;
  while (nodes[below].token < 0) ++below;
  const std::string_view bytes = vocabulary_->bytes(nodes[below].token);
  for (uint16_t depth = 1; depth <= nodes[node].depth; ++depth) {
    path_[depth] = states_.Step(path_[depth - 1], static_cast<uint8_t>(bytes[depth - 1]));
    BATON_CHECK(path_[depth] != ParseStates::kDead) << "what is common to all contexts is dead in one";
  }
}

void TokenMasks::SetEos(std::vector<uint64_t>* words) const {
  for (const int32_t id : vocabulary_->eos_ids()) SetBit(id, words);
}

int32_t TokenMasks::Keep(Mask mask) {
  if (MemoryBytes() > max_bytes_) DropMasks();
  std::vector<int32_t>& alike = masks_by_hash_[absl::HashOf(mask.words, mask.is_stuck)];
  for (const int32_t id : alike) {
    if (masks_[id].words == mask.words && masks_[id].is_stuck == mask.is_stuck) return id;
  }
  const auto id = static_cast<int32_t>(masks_.size());
  alike.push_back(id);
  mask_bytes_ += mask.words.size() * sizeof(uint64_t) + sizeof(Mask);
  masks_.push_back(std::move(mask));
  return id;
}

void TokenMasks::DropMasks() {
  ++num_drops_;
  masks_.clear();
  masks_by_hash_.clear();
  mask_of_.clear();
  common_of_.clear();
  references_.clear();
  next_reference_ = 0;
  mask_bytes_ = 0;
}

void TokenMasks::Drop(size_t path_length) {
  DropMasks();
  std::vector<int32_t> kept(path_.begin(), path_.begin() + static_cast<ptrdiff_t>(path_length));
  for (const Place& place : places_) kept.push_back(place.is_free ? ParseStates::kDead : place.configuration);
  states_.Retain(absl::MakeSpan(kept));
  std::copy(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(path_length), path_.begin());
  for (size_t i = 0; i < places_.size(); ++i) places_[i].configuration = kept[path_length + i];
}

}  // namespace baton::grammar
