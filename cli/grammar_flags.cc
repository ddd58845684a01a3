#include "cli/grammar_flags.h"

namespace baton::cli {

void AddGrammarFlags(CLI::App& app, GrammarFlags& flags) {
  constexpr char kGroup[] = "What the whole output must match (one of these)";
  CLI::Option* const options[] = {
      app.add_flag("--json-object", flags.json_object, "a JSON object"),
      app.add_option("--json-schema", flags.json_schema, "JSON that this JSON Schema describes"),
      app.add_option("--regex", flags.regex, "this regular expression"),
      app.add_option("--choice", flags.choice, "one of these texts; may be repeated"),
      app.add_option("--ebnf", flags.ebnf, "this grammar, whose first rule is `root`")};
  for (CLI::Option* option : options) {
    option->group(kGroup);
    for (CLI::Option* other : options) {
      if (other != option) option->excludes(other);
    }
  }
}

v1::Grammar GrammarOf(const GrammarFlags& flags) {
  v1::Grammar grammar;
  if (flags.json_object) grammar.set_json_object(true);
  if (flags.json_schema) grammar.set_json_schema(*flags.json_schema);
  if (flags.regex) grammar.set_regex(*flags.regex);
  if (flags.ebnf) grammar.set_ebnf(*flags.ebnf);
  for (const std::string& text : flags.choice) grammar.mutable_choice()->add_texts(text);
  return grammar;
}

}  // namespace baton::cli
