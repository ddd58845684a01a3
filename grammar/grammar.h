// A grammar that outputs must keep to, compiled from what a client wrote. docs/structured_output.md says what is
// supported.
#ifndef BATON_GRAMMAR_GRAMMAR_H_
#define BATON_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/output_grammar.h"
#include "grammar/grammar_form.h"

namespace baton::grammar {

// Immutable, any thread.
class Grammar {
 public:
  explicit Grammar(GrammarForm form) : form_(std::move(form)) {}

  const GrammarForm& form() const { return form_; }
  size_t MemoryBytes() const;

 private:
  const GrammarForm form_;
};

// INVALID_ARGUMENT for a source that is malformed, saying where, or that no output satisfies. UNIMPLEMENTED for one
// that asks for what is not supported, which it names. RESOURCE_EXHAUSTED beyond a limit of grammar_limits.h. A source
// whose kind is kNone is INVALID_ARGUMENT. Any thread; takes 100 ms at most.
absl::StatusOr<std::shared_ptr<const Grammar>> CompileGrammar(const OutputGrammar& source);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_GRAMMAR_H_
