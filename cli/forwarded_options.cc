#include "cli/forwarded_options.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/flag_values.h"
#include "cli/options.h"

namespace baton::cli {
namespace {

constexpr char kRoleFlagOption[] = "--role-flag";

// The arguments that are for this role alone.
std::vector<std::string> RoleArgs(const CLI::App& from, const std::string& role) {
  const CLI::Option* const option = from.get_option_no_throw(kRoleFlagOption);
  if (option == nullptr) return {};
  std::vector<std::string> args;
  for (const std::string& result : option->results()) {
    absl::string_view arg = result;
    if (absl::ConsumePrefix(&arg, absl::StrCat(role, " "))) args.emplace_back(arg);
  }
  return args;
}

}  // namespace

void AddRoleFlagOption(CLI::App& serve) { serve.add_option(kRoleFlagOption)->take_all()->group(kInternalGroup); }

std::string RoleFlag(const std::string& role, const std::string& arg) {
  return absl::StrCat(kRoleFlagOption, "=", role, " ", arg);
}

std::vector<std::string> ForwardedArgs(const CLI::App& from, const CLI::App& to) {
  std::vector<std::string> args = RoleArgs(from, to.get_name());
  std::set<std::string> of_role;
  for (const std::string& arg : args) of_role.insert(arg.substr(0, arg.find('=')));
  for (const CLI::Option* option : from.get_options()) {
    if (!IsSettable(*option) || option->get_group() == kAddressGroup) continue;
    const std::string flag = "--" + option->get_lnames().front();
    if (flag == "--config" || to.get_option_no_throw(flag) == nullptr || of_role.contains(flag)) continue;
    for (const std::string& value : option->reduced_results()) args.push_back(absl::StrCat(flag, "=", value));
  }
  return args;
}

}  // namespace baton::cli
