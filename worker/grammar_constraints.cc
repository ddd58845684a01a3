#include "worker/grammar_constraints.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"

namespace baton::worker {
namespace {

// All that takes long. On any thread: nobody else has the masks yet.
absl::StatusOr<std::shared_ptr<grammar::TokenMasks>> MakeMasks(const OutputGrammar& source,
                                                               std::shared_ptr<const grammar::Vocabulary> vocabulary) {
  absl::StatusOr<std::shared_ptr<const grammar::Grammar>> grammar = grammar::CompileGrammar(source);
  // To an engine, exhausted resources are those that may come back.
  if (absl::IsResourceExhausted(grammar.status())) return absl::InvalidArgumentError(grammar.status().message());
  BATON_RETURN_IF_ERROR(grammar.status());
  auto masks = std::make_shared<grammar::TokenMasks>(*std::move(grammar), std::move(vocabulary));
  int64_t steps = GrammarConstraints::kMaxMaskSteps;
  grammar::GrammarMatcher(masks).FindMask(steps);
  return masks;
}

Id128 NameOf(uint64_t number) { return {.high = 0, .low = number}; }

}  // namespace

class GrammarConstraints::Entry final : public engine::PreparedGrammar, public std::enable_shared_from_this<Entry> {
 public:
  Entry(GrammarConstraints& owner, OutputGrammar source) : source(std::move(source)), owner_(owner) {}
  ~Entry() override { owner_.Forget(*this); }

  bool is_ready() const override { return masks.has_value(); }
  Key key() const { return {source.kind, source.text}; }

  const OutputGrammar source;
  std::optional<Masks> masks;
  // Names it to side_; 0: it is not there.
  uint64_t number = 0;

 private:
  GrammarConstraints& owner_;
};

class GrammarConstraints::Constraint final : public engine::TokenConstraint {
 public:
  // The grammar could be compiled.
  Constraint(GrammarConstraints& owner, std::shared_ptr<const Entry> entry)
      : owner_(owner),
        entry_(std::move(entry)),
        matcher_(entry_->masks->value()),
        steps_of_token_(static_cast<int64_t>(owner.vocabulary_->nodes().size())) {}

  bool Accept(int32_t token) override {
    if (!matcher_.Accept(token)) return false;
    accepted_.push_back(token);
    is_asked_ = false;
    steps_ = std::min(kMaxMaskSteps, std::max<int64_t>(steps_, 0) + steps_of_token_);
    return true;
  }
  bool IsReady() override {
    if (is_asked_) return heavy_->is_known();
    if (owner_.mask_side_ == nullptr || matcher_.FindMask(steps_)) return true;
    if (heavy_ == nullptr) heavy_ = owner_.MakeHeavy(*entry_);
    is_asked_ = heavy_->Ask(accepted_);
    return !is_asked_;
  }
  bool Allows(int32_t token) override { return grammar::GrammarMatcher(matcher_).Accept(token); }
  engine::AllowedTokens Allowed() override {
    if (is_asked_ && heavy_->is_known()) return heavy_->allowed();
    // The masks of a step are all read at its end, when those of other sequences have been looked up.
    const grammar::TokenMask mask = matcher_.mask();
    words_.assign(mask.words.begin(), mask.words.end());
    return {.words = words_, .only = mask.only};
  }

 private:
  GrammarConstraints& owner_;
  // So that those who have the same grammar find it.
  const std::shared_ptr<const Entry> entry_;
  grammar::GrammarMatcher matcher_;
  std::vector<int32_t> accepted_;
  const int64_t steps_of_token_;
  int64_t steps_ = kMaxMaskSteps;
  // From the first mask on that took too long.
  std::unique_ptr<HeavyMasks> heavy_;
  // The mask behind the tokens that were accepted is heavy_'s.
  bool is_asked_ = false;
  std::vector<uint64_t> words_;
};

GrammarConstraints::GrammarConstraints(std::shared_ptr<const grammar::Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

GrammarConstraints::~GrammarConstraints() = default;

std::shared_ptr<const engine::PreparedGrammar> GrammarConstraints::Prepare(const OutputGrammar& source) {
  // Without an end token there will be no constraint.
  if (side_ == nullptr || vocabulary_->eos_ids().empty()) return nullptr;
  const std::shared_ptr<Entry> entry = EntryOf(source);
  if (!entry->is_ready() && entry->number == 0) Compile(*entry);
  return entry;
}

absl::StatusOr<std::unique_ptr<engine::TokenConstraint>> GrammarConstraints::Make(const OutputGrammar& source) {
  // Where an output must end there would be no token to choose.
  if (vocabulary_->eos_ids().empty()) return absl::UnimplementedError("grammar: the model has no end token");
  const std::shared_ptr<Entry> entry = EntryOf(source);
  if (!entry->is_ready()) entry->masks = MakeMasks(source, vocabulary_);
  BATON_RETURN_IF_ERROR(entry->masks->status());
  Keep(entry);
  return std::make_unique<Constraint>(*this, entry);
}

std::unique_ptr<HeavyMasks> GrammarConstraints::MakeHeavy(const Entry& entry) {
  return std::make_unique<HeavyMasks>(*mask_side_, NameOf(++last_number_), entry.masks->value()->grammar(),
                                      vocabulary_);
}

std::shared_ptr<GrammarConstraints::Entry> GrammarConstraints::EntryOf(const OutputGrammar& source) {
  const auto found = entries_.find(Key{source.kind, source.text});
  if (found != entries_.end()) return found->second->shared_from_this();
  auto entry = std::make_shared<Entry>(*this, source);
  entries_.emplace(entry->key(), entry.get());
  return entry;
}

void GrammarConstraints::Compile(Entry& entry) {
  entry.number = ++last_number_;
  const auto work = [this, number = entry.number, source = entry.source, vocabulary = vocabulary_]() -> SideWork::Task {
    return [this, number, masks = MakeMasks(source, vocabulary)] { OnCompiled(number, masks); };
  };
  if (side_->Post(NameOf(entry.number), entry.source.text.size(), work)) {
    compiling_.emplace(entry.number, &entry);
  } else {
    entry.masks = absl::UnavailableError("grammar: the worker prepares no more");
  }
}

void GrammarConstraints::OnCompiled(uint64_t number, Masks masks) {
  const auto it = compiling_.find(number);
  if (it == compiling_.end()) return;
  // Whoever did not wait has made it, and uses it.
  if (!it->second->is_ready()) it->second->masks = std::move(masks);
  compiling_.erase(it);
}

void GrammarConstraints::Forget(const Entry& entry) {
  entries_.erase(entry.key());
  if (compiling_.erase(entry.number) > 0) side_->Drop(NameOf(entry.number));
}

void GrammarConstraints::Keep(std::shared_ptr<Entry> entry) {
  const auto found = std::find(kept_.begin(), kept_.end(), entry);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return;
  }
  kept_.push_front(std::move(entry));
  if (kept_.size() > kMaxKept) kept_.pop_back();
}

}  // namespace baton::worker
