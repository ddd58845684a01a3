// A grammar for tests and the simulator: output i has an id of the remainder i % 3 by 3. From the output on that is the
// length of the grammar's text, the end token is allowed too. So a constraint that lost or invented an output shows.
#ifndef BATON_ENGINE_TESTING_THIRDS_GRAMMAR_H_
#define BATON_ENGINE_TESTING_THIRDS_GRAMMAR_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/token_constraint.h"

namespace baton::engine {

class ThirdsConstraint final : public TokenConstraint {
 public:
  struct Rules {
    int32_t vocab_size = 0;
    int32_t eos_id = 0;
    // The first output that may be the end.
    int32_t least = 0;
  };

  explicit ThirdsConstraint(const Rules& rules)
      : rules_(rules), words_((static_cast<size_t>(rules.vocab_size) + 63) / 64) {}

  bool Accept(int32_t token) override {
    if (!IsAllowed(token)) return false;
    ++count_;
    return true;
  }
  AllowedTokens Allowed() override {
    words_.assign(words_.size(), 0);
    for (int32_t id = 0; id < rules_.vocab_size; ++id) {
      words_[static_cast<size_t>(id) / 64] |= uint64_t{IsAllowed(id)} << (id % 64);
    }
    return {.words = words_};
  }

 private:
  bool IsAllowed(int32_t id) const { return id == rules_.eos_id ? count_ >= rules_.least : id % 3 == count_ % 3; }

  const Rules rules_;
  int32_t count_ = 0;
  std::vector<uint64_t> words_;
};

class ThirdsSource final : public ConstraintSource {
 public:
  ThirdsSource(int32_t vocab_size, int32_t eos_id) : vocab_size_(vocab_size), eos_id_(eos_id) {}

  absl::StatusOr<std::unique_ptr<TokenConstraint>> Make(const OutputGrammar& grammar) override {
    if (grammar.text == "bad") return absl::InvalidArgumentError("bad grammar");
    return std::make_unique<ThirdsConstraint>(ThirdsConstraint::Rules{
        .vocab_size = vocab_size_, .eos_id = eos_id_, .least = static_cast<int32_t>(grammar.text.size())});
  }

 private:
  const int32_t vocab_size_;
  const int32_t eos_id_;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TESTING_THIRDS_GRAMMAR_H_
