// The flags of `generate`, `chat` and `bench serve` that say what an output must match.
#ifndef BATON_CLI_GRAMMAR_FLAGS_H_
#define BATON_CLI_GRAMMAR_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "baton/v1/generation.pb.h"

namespace baton::cli {

// At most one of these. The server compiles it.
struct GrammarFlags {
  bool json_object = false;
  std::optional<std::string> json_schema, regex, ebnf;
  std::vector<std::string> choice;
};

void AddGrammarFlags(CLI::App& app, GrammarFlags& flags);
// Without a source where no flag is set.
v1::Grammar GrammarOf(const GrammarFlags& flags);

}  // namespace baton::cli

#endif  // BATON_CLI_GRAMMAR_FLAGS_H_
