// ThirdsSource whose grammars take time to prepare.
#ifndef BATON_ENGINE_TESTING_SLOW_GRAMMAR_H_
#define BATON_ENGINE_TESTING_SLOW_GRAMMAR_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/status.h"
#include "engine/testing/thirds_grammar.h"

namespace baton::engine {

// Is given what makes something ready, for the engine's thread to call at once or later, or never.
using Later = std::function<void(std::function<void()> make_ready)>;

// Another constraint, whose masks take time too.
class SlowConstraint final : public TokenConstraint {
 public:
  // `later` outlives it.
  SlowConstraint(std::unique_ptr<TokenConstraint> constraint, const Later& later)
      : constraint_(std::move(constraint)), later_(later) {}

  bool Accept(int32_t token) override {
    BATON_CHECK(ready_ == nullptr || *ready_) << "a token came while it was not known which may come";
    ready_.reset();
    return constraint_->Accept(token);
  }
  bool IsReady() override {
    if (ready_ == nullptr) {
      ready_ = std::make_shared<bool>(false);
      later_([ready = std::weak_ptr<bool>(ready_)] {
        if (const auto waits = ready.lock()) *waits = true;
      });
    }
    return *ready_;
  }
  AllowedTokens Allowed() override { return constraint_->Allowed(); }

 private:
  const std::unique_ptr<TokenConstraint> constraint_;
  const Later& later_;
  // Whether it is known which token may come; null: nobody has asked.
  std::shared_ptr<bool> ready_;
};

class SlowSource final : public ConstraintSource {
 public:
  // Grammars are ready when `later` says so, and their masks when `mask_later` does; null: at once.
  SlowSource(int32_t vocab_size, int32_t eos_id, Later later, Later mask_later = nullptr)
      : thirds_(vocab_size, eos_id), later_(std::move(later)), mask_later_(std::move(mask_later)) {}

  std::shared_ptr<const PreparedGrammar> Prepare(const OutputGrammar& grammar) override {
    auto prepared = std::make_shared<Prepared>();
    prepared->grammar = grammar;
    held_.push_back(prepared);
    later_([prepared = std::weak_ptr<Prepared>(prepared)] {
      if (const auto held = prepared.lock()) held->ready = true;
    });
    return prepared;
  }

  // Nobody may make a worker wait: somebody holds the grammar, and it is ready.
  absl::StatusOr<std::unique_ptr<TokenConstraint>> Make(const OutputGrammar& grammar) override {
    std::erase_if(held_, [](const auto& each) { return each.expired(); });
    const bool is_ready = std::any_of(held_.begin(), held_.end(), [&](const auto& each) {
      const auto held = each.lock();
      return held != nullptr && held->ready && held->grammar == grammar;
    });
    BATON_CHECK(is_ready) << "nobody has waited for the grammar " << grammar.text;
    BATON_ASSIGN_OR_RETURN(std::unique_ptr<TokenConstraint> constraint, thirds_.Make(grammar));
    if (mask_later_ == nullptr) return constraint;
    return std::make_unique<SlowConstraint>(std::move(constraint), mask_later_);
  }

  // How many grammars somebody holds.
  int32_t held() {
    std::erase_if(held_, [](const auto& each) { return each.expired(); });
    return static_cast<int32_t>(held_.size());
  }

 private:
  struct Prepared final : PreparedGrammar {
    bool is_ready() const override { return ready; }
    OutputGrammar grammar;
    bool ready = false;
  };

  ThirdsSource thirds_;
  const Later later_;
  const Later mask_later_;
  std::vector<std::weak_ptr<Prepared>> held_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_SLOW_GRAMMAR_H_
