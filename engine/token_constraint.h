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
  // Valid until this constraint is called again.
  virtual AllowedTokens Allowed() = 0;
};

// Makes the constraints of an engine's sequences. Used by the engine's thread.
class ConstraintSource {
 public:
  virtual ~ConstraintSource() = default;
  // `grammar` is not empty. INVALID_ARGUMENT, UNIMPLEMENTED or RESOURCE_EXHAUSTED for one that cannot be used.
  virtual absl::StatusOr<std::unique_ptr<TokenConstraint>> Make(const OutputGrammar& grammar) = 0;
};

}  // namespace baton::engine

#endif  // BATON_ENGINE_TOKEN_CONSTRAINT_H_
