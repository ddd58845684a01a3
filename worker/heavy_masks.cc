#include "worker/heavy_masks.h"

#include <functional>
#include <limits>

#include "common/check.h"
#include "grammar/grammar_matcher.h"
#include "grammar/token_masks.h"

namespace baton::worker {

struct HeavyMasks::Own {
  Own(std::shared_ptr<const grammar::Grammar> grammar, std::shared_ptr<const grammar::Vocabulary> vocabulary,
      std::function<bool()> is_unwanted)
      : masks(std::make_shared<grammar::TokenMasks>(std::move(grammar), std::move(vocabulary))),
        matcher(masks),
        is_unwanted(std::move(is_unwanted)) {
    masks->GiveUpWhen(this->is_unwanted);
  }

  // False when it was given up.
  bool Find(const std::vector<int32_t>& tokens) {
    for (const int32_t token : tokens) BATON_CHECK(matcher.Accept(token) || is_unwanted()) << "token " << token;
    int64_t steps = std::numeric_limits<int64_t>::max();
    if (!matcher.FindMask(steps)) return false;
    const grammar::TokenMask mask = matcher.mask();
    words.assign(mask.words.begin(), mask.words.end());
    only = mask.only;
    return true;
  }

  const std::shared_ptr<grammar::TokenMasks> masks;
  grammar::GrammarMatcher matcher;
  const std::function<bool()> is_unwanted;
  std::vector<uint64_t> words;
  int32_t only = -1;
};

HeavyMasks::HeavyMasks(SideWork& side, const Id128& id, std::shared_ptr<const grammar::Grammar> grammar,
                       std::shared_ptr<const grammar::Vocabulary> vocabulary)
    : side_(side), id_(id), grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

HeavyMasks::~HeavyMasks() { Abandon(); }

void HeavyMasks::Abandon() {
  side_.Drop(id_);
  *is_unwanted_ = true;
}

bool HeavyMasks::Ask(absl::Span<const int32_t> tokens) {
  if (!is_known()) {
    Abandon();
    found_ = std::make_shared<Found>();
    is_unwanted_ = std::make_shared<std::atomic<bool>>(false);
    accepted_ = 0;
  }
  const absl::Span<const int32_t> next = tokens.subspan(accepted_);
  const auto work = [found = std::weak_ptr<Found>(found_), own = found_->own, grammar = grammar_,
                     vocabulary = vocabulary_, is_unwanted = is_unwanted_, &side = side_,
                     next = std::vector<int32_t>(next.begin(), next.end())]() mutable -> SideWork::Task {
    if (own == nullptr) {
      own = std::make_shared<Own>(std::move(grammar), std::move(vocabulary),
                                  [is_unwanted, &side] { return *is_unwanted || side.is_stopping(); });
    }
    if (!own->Find(next)) return [] {};
    return [found = std::move(found), own = std::move(own)] {
      if (const std::shared_ptr<Found> waits = found.lock()) waits->own = own;
    };
  };
  if (!side_.Post(id_, sizeof(int32_t) * next.size(), work)) return false;
  accepted_ = tokens.size();
  found_->own.reset();
  return true;
}

engine::AllowedTokens HeavyMasks::allowed() const { return {.words = found_->own->words, .only = found_->own->only}; }

}  // namespace baton::worker
