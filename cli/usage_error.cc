#include "cli/usage_error.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/flag_values.h"

namespace baton::cli {
namespace {

// "baton bench engine"
std::string FullName(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? "baton" : absl::StrCat(FullName(*parent), " ", command.get_name());
}

// What a command that only holds others gets in place of one of them.
std::string NoCommand(CLI::App& command, const std::vector<std::string>& args) {
  size_t words = 0;
  for (const CLI::App* app = &command; app->get_parent() != nullptr; app = app->get_parent()) ++words;
  const std::string name = FullName(command);
  const std::string help = absl::StrCat("; `", name, " --help` lists the commands");
  if (args.size() <= words) return absl::StrCat("`", name, "` needs a command", help);
  const std::string& word = args[words];
  if (absl::StartsWith(word, "-")) {
    return absl::StrCat(word, ": expected a command before it, as in `", name, " COMMAND ", word, "`", help);
  }
  std::vector<std::string> known;
  for (const CLI::App* sub : command.get_subcommands(IsNamed)) known.push_back(sub->get_name());
  return absl::StrCat("'", word, "' is no command of `", name, "`", Suggestion(word, known), help);
}

// Empty when all values are of the kind that their options take.
std::string WrongValue(CLI::App& command, const std::vector<std::string>& args) {
  for (CLI::Option* option : AllOptions(command)) {
    const std::vector<std::string> values = option->results();
    if (values.empty()) continue;
    const absl::Status checked = CheckValues(*option, values);
    if (checked.ok()) continue;
    const bool of_environment = !IsGiven(*option, args) && IsInEnvironment(*option);
    return absl::StrCat(of_environment ? option->get_envname() : option->get_name(), ": ", checked.message());
  }
  return "";
}

// Empty when the command knows every argument.
std::string UnknownArgument(CLI::App& app, CLI::App& command) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) return "";
  const std::string& first = unknown.front();
  if (!absl::StartsWith(first, "--")) {
    return absl::StrCat("'", first, "': `", FullName(command), "` takes no such argument");
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : AllOptions(command)) {
    if (IsSettable(*option)) known.push_back("--" + option->get_lnames().front());
  }
  const std::string name = first.substr(0, first.find('='));
  return absl::StrCat(name, ": `", FullName(command), "` has no such flag", Suggestion(name, known));
}

// Empty when each group of options that exclude one another has as many as it must have.
std::string WrongGroup(CLI::App& command) {
  for (CLI::App* group : command.get_subcommands([](const CLI::App* sub) { return !IsNamed(sub); })) {
    std::vector<std::string> names;
    size_t given = 0;
    for (const CLI::Option* option : group->get_options()) {
      if (!IsSettable(*option)) continue;
      names.push_back(option->get_name());
      given += option->count() > 0 ? 1 : 0;
    }
    if (given != 1) return absl::StrCat("expected one of ", absl::StrJoin(names, ", "), ", not ", given, " of them");
  }
  return "";
}

}  // namespace

absl::Status UsageError(CLI::App& app, const std::vector<std::string>& args, const CLI::ParseError& error) {
  CLI::App& command = CommandOf(app, args);
  if (!IsRunnable(command)) return absl::InvalidArgumentError(NoCommand(command, args));
  std::string text = UnknownArgument(app, command);
  if (text.empty()) text = WrongGroup(command);
  if (text.empty()) text = WrongValue(command, args);
  if (text.empty()) text = error.what();
  return absl::InvalidArgumentError(absl::StrCat(text, "; see `", FullName(command), " --help`"));
}

}  // namespace baton::cli
