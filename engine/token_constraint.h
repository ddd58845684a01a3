// The seam between the engine and what a client's grammar allows. The engine knows no grammar: it asks which tokens may
// come next, and says which one came.
#ifndef BATON_ENGINE_TOKEN_CONSTRAINT_H_
#define BATON_ENGINE_TOKEN_CONSTRAINT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/output_grammar.h"

namespace baton::engine {

// The tokens that may come next. Empty: all of them.
struct AllowedTokens {
  // [ceil(vocab_size / 64)]: bit id % 64 of words[id / 64] is set when the token is allowed. At least one is.
  absl::Span<const uint64_t> words = {};
  // The one token that is allowed, where there is just one; else -1.
  int32_t only = -1;

  bool empty() const { return words.empty(); }
  bool Has(int32_t id) const {
    return empty() || (words[static_cast<size_t>(id) / 64] >> (static_cast<size_t>(id) % 64) & 1) != 0;
  }
};

// What one sequence's outputs may be. It depends on the grammar and on the outputs so far alone, so that a sequence
// goes on elsewhere as it would have here. Used by the engine's thread.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // `token` is the next output. False when it is not allowed; nothing has changed then.
  [[nodiscard]] virtual bool Accept(int32_t token) = 0;
  // Whether `token` may be the next output, in no more time than Accept takes.
  virtual bool Allows(int32_t token) { return Allowed().Has(token); }
  // Whether Allowed takes no time to speak of. Where this is false, what Allowed needs is computed beside the engine's
  // thread, and the answer changes without another call of this constraint. Allowed may be called all the same, and
  // takes its time then.
  virtual bool IsReady() { return true; }
  // Valid until this constraint is called again.
  virtual AllowedTokens Allowed() = 0;
};

// A grammar that is made ready beside the engine's thread, and stays so for those who hold this. Used by the engine's
// thread.
class PreparedGrammar {
 public:
  virtual ~PreparedGrammar() = default;
  // Once true, it stays true: Make has the grammar, or the reason why it cannot be used.
  virtual bool is_ready() const = 0;
};

// Makes the constraints of an engine's sequences. Used by the engine's thread. `grammar` is never empty.
class ConstraintSource {
 public:
  virtual ~ConstraintSource() = default;
  // Has all that takes long in Make done beside the engine's thread. Make may be called at any time, but does it itself
  // before the grammar is ready. Null: there is nothing to wait for.
  virtual std::shared_ptr<const PreparedGrammar> Prepare(const OutputGrammar& /*grammar*/) { return nullptr; }
  // INVALID_ARGUMENT or UNIMPLEMENTED for a grammar that cannot be used, UNAVAILABLE when nobody prepares it here any
  // more.
  virtual absl::StatusOr<std::unique_ptr<TokenConstraint>> Make(const OutputGrammar& grammar) = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TOKEN_CONSTRAINT_H_
