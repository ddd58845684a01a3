#include "cli/flag_values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/options.h"
#include "common/plain_number.h"

namespace baton::cli {
namespace {

// The letters that turn one name into the other.
size_t EditDistance(const std::string& from, const std::string& to) {
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t changed = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

void AddCommands(CLI::App& app, const std::string& prefix, std::map<std::string, CLI::App*>& commands) {
  for (CLI::App* command : app.get_subcommands(IsNamed)) {
    if (IsRunnable(*command)) commands[prefix + command->get_name()] = command;
    AddCommands(*command, prefix + command->get_name() + "-", commands);
  }
}

// The two bounds of CLI11's "INT in [0 - 64]"; empty for another description.
std::vector<std::string> Bounds(absl::string_view description) {
  const size_t begin = description.find(" in [");
  if (begin == absl::string_view::npos || !absl::EndsWith(description, "]")) return {};
  absl::string_view range = description.substr(begin + 5);
  range.remove_suffix(1);
  std::vector<std::string> bounds = absl::StrSplit(range, " - ");
  if (bounds.size() != 2) return {};
  for (std::string& bound : bounds) {
    if (double value = 0; absl::SimpleAtod(bound, &value)) bound = PlainNumber(value);
  }
  return bounds;
}

// "an integer from 0 to 64", of the description that CLI11 gives its validators. Empty where it is another.
std::string InWords(absl::string_view description) {
  if (const size_t either = description.find(") OR ("); either != absl::string_view::npos) {
    return absl::StrCat(InWords(description.substr(1, either - 1)), " or ",
                        InWords(description.substr(either + 6, description.size() - either - 7)));
  }
  if (const std::vector<std::string> bounds = Bounds(description); !bounds.empty()) {
    return absl::StrCat(absl::StartsWith(description, "FLOAT") ? "a number" : "an integer", " from ", bounds[0], " to ",
                        bounds[1]);
  }
  if (description == "POSITIVE") return "a number above 0";
  if (description == "NONNEGATIVE") return "0 or a number above it";
  if (description == kModelPathType) return "the path of a model";
  if (description == kShareType) return "a number above 0 and up to 1";
  if (absl::ConsumePrefix(&description, "{") && absl::ConsumeSuffix(&description, "}")) {
    const std::string members = absl::StrReplaceAll(description, {{",", ", "}});
    return absl::StrContains(members, ",") ? absl::StrCat("one of ", members) : members;
  }
  return "";
}

CLI::Validator* FirstValidator(CLI::Option& option) {
  // CLI11 says by exception that there is none.
  try {
    return option.get_validator(0);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

// "INT", "UINT", "FLOAT" or "TEXT".
std::string TypeOf(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(':'));
}

std::string Expected(CLI::Option& option) {
  if (option.get_expected_max() == 0) return "true or false";
  if (const CLI::Validator* validator = FirstValidator(option)) {
    if (std::string words = InWords(validator->get_description()); !words.empty()) return words;
  }
  const std::string type = TypeOf(option);
  if (type == "INT") return "an integer";
  if (type == "UINT") return "an integer from 0";
  return type == "FLOAT" ? "a number" : "";
}

}  // namespace

bool IsNamed(const CLI::App* command) { return !command->get_name().empty(); }

bool IsRunnable(const CLI::App& command) {
  return command.get_subcommands(IsNamed).empty() || command.get_require_subcommand_min() == 0;
}

std::vector<CLI::Option*> AllOptions(CLI::App& command) {
  std::vector<CLI::Option*> options = command.get_options();
  for (CLI::App* group : command.get_subcommands([](const CLI::App* sub) { return !IsNamed(sub); })) {
    const std::vector<CLI::Option*> more = group->get_options();
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

bool IsSettable(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return !names.empty() && names.front() != "help" && option.get_group() != kInternalGroup;
}

std::map<std::string, CLI::App*> CommandsByName(CLI::App& app) {
  std::map<std::string, CLI::App*> commands;
  AddCommands(app, "", commands);
  return commands;
}

CLI::App& CommandOf(CLI::App& app, const std::vector<std::string>& args) {
  CLI::App* command = &app;
  for (const std::string& arg : args) {
    const auto named = command->get_subcommands([&arg](const CLI::App* sub) { return sub->get_name() == arg; });
    if (arg.empty() || named.empty()) break;
    command = named.front();
  }
  return *command;
}

bool IsGiven(const CLI::Option& option, const std::vector<std::string>& args) {
  const auto names_it = [&option](const std::string& arg) {
    if (!absl::StartsWith(arg, "--")) return false;
    const std::string name = arg.substr(2, arg.find('=') == std::string::npos ? arg.npos : arg.find('=') - 2);
    const std::vector<std::string>& names = option.get_lnames();
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return std::any_of(args.begin(), args.end(), names_it);
}

bool IsInEnvironment(const CLI::Option& option) {
  const char* const value = option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
  return value != nullptr && *value != '\0';
}

void Tidy(CLI::Option& option) {
  const auto refuse = [&option](bool (*is_wrong)(const std::string&)) {
    option.check([is_wrong](const std::string& text) { return is_wrong(text) ? "wrong: " + text : std::string(); });
  };
  CLI::Validator* const validator = FirstValidator(option);
  if (TypeOf(option) == "UINT") refuse([](const std::string& text) { return absl::StartsWith(text, "-"); });
  if (validator == nullptr) return;
  if (TypeOf(option) == "FLOAT") {
    refuse([](const std::string& text) {
      double value = 0;
      return absl::SimpleAtod(text, &value) && !std::isfinite(value);
    });
  }
  // Adding a check may have moved the first.
  CLI::Validator& first = *FirstValidator(option);
  const std::string description = first.get_description();
  const std::vector<std::string> bounds = Bounds(description);
  if (bounds.empty() || absl::StrContains(description, " OR ")) return;
  first.description(
      absl::StrCat(description.substr(0, description.find(" in [")), " in [", bounds[0], " - ", bounds[1], "]"));
}

absl::Status CheckValues(CLI::Option& option, const std::vector<std::string>& values) {
  std::string complaint;
  // CLI11 reports by exception. None leaves this function.
  try {
    option.clear();
    for (const std::string& value : values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    complaint = error.what();
  }
  option.clear();
  if (complaint.empty()) return absl::OkStatus();
  const std::string given = absl::StrJoin(values, ", ");
  if (values.size() > 1 && option.get_items_expected_max() == 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected one value, not ", given));
  }
  if (const std::string expected = Expected(option); !expected.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", not ", given.empty() ? "''" : given));
  }
  const size_t colon = complaint.find(": ");
  return absl::InvalidArgumentError(complaint.substr(colon == std::string::npos ? 0 : colon + 2));
}

std::string Suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    if (const size_t distance = EditDistance(name, candidate); distance < least) {
      least = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : absl::StrCat(" (did you mean ", *nearest, "?)");
}

}  // namespace baton::cli
