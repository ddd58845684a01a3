#include "grammar/grammar_matcher.h"

#include <utility>

namespace baton::grammar {

GrammarMatcher::GrammarMatcher(std::shared_ptr<TokenMasks> masks)
    : masks_(std::move(masks)), place_(masks_->OpenPlace()) {}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : masks_(other.masks_), place_(masks_->CopyPlace(other.place_)) {}

GrammarMatcher::GrammarMatcher(GrammarMatcher&& other) noexcept
    : masks_(std::exchange(other.masks_, nullptr)), place_(other.place_) {}

GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher other) noexcept {
  std::swap(masks_, other.masks_);
  std::swap(place_, other.place_);
  return *this;
}

GrammarMatcher::~GrammarMatcher() {
  if (masks_ != nullptr) masks_->ClosePlace(place_);
}

bool GrammarMatcher::Accept(int32_t token) { return masks_->Accept(place_, token); }

TokenMask GrammarMatcher::mask() {
  const TokenMasks::Mask& mask = masks_->MaskOf(place_);
  return {mask.words, mask.only};
}

bool GrammarMatcher::is_stuck() { return masks_->MaskOf(place_).is_stuck; }

}  // namespace baton::grammar
