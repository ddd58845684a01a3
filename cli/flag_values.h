// What a flag takes, in words, and whether given values are of that kind: for errors that name flag, variable or key.
#ifndef BATON_CLI_FLAG_VALUES_H_
#define BATON_CLI_FLAG_VALUES_H_

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace baton::cli {

// CLI11 keeps a group of options as a subcommand without a name.
bool IsNamed(const CLI::App* command);

// Whether the command does something by itself, also one that has others below it.
bool IsRunnable(const CLI::App& command);

// The name of the type of a validator that takes paths of models.
inline constexpr char kModelPathType[] = "PATH";

// The options of a command, with those of its option groups.
std::vector<CLI::Option*> AllOptions(CLI::App& command);

// What users set by flag, environment or file: not --help, and nothing internal (kInternalGroup).
bool IsSettable(const CLI::Option& option);

// The commands that run, by their words joined with "-", as "serve" and "bench-engine".
std::map<std::string, CLI::App*> CommandsByName(CLI::App& app);

// The command that the first words of `args` name; `app` itself when they name none.
CLI::App& CommandOf(CLI::App& app, const std::vector<std::string>& args);

// Whether `args` has a flag of the option, as `--flag` or `--flag=value`.
bool IsGiven(const CLI::Option& option, const std::vector<std::string>& args);

// Whether the environment sets the option. An empty variable sets nothing.
bool IsInEnvironment(const CLI::Option& option);

// Mends what CLI11 does with numbers: it takes -1 for an unsigned integer and "nan" for a number of any range, and
// writes ranges with exponents.
void Tidy(CLI::Option& option);

// INVALID_ARGUMENT says what was expected and what was given. It writes what the option is bound to and leaves the
// option unset, so call it before the parser runs, or when that has failed.
absl::Status CheckValues(CLI::Option& option, const std::vector<std::string>& values);

// " (did you mean X?)", where a known name differs from `name` in few letters; otherwise nothing.
std::string Suggestion(const std::string& name, const std::vector<std::string>& known);

}  // namespace baton::cli

#endif  // BATON_CLI_FLAG_VALUES_H_
