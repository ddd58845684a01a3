#include "cli/forwarded_options.h"

#include "absl/strings/str_cat.h"
#include "cli/options.h"

namespace baton::cli {

std::vector<std::string> ForwardedArgs(const CLI::App& from, const CLI::App& to) {
  std::vector<std::string> args;
  for (const CLI::Option* option : from.get_options()) {
    if (option->get_lnames().empty() || option->get_group() == kAddressGroup) continue;
    const std::string flag = "--" + option->get_lnames().front();
    if (to.get_option_no_throw(flag) == nullptr) continue;
    for (const std::string& value : option->reduced_results()) args.push_back(absl::StrCat(flag, "=", value));
  }
  return args;
}

}  // namespace baton::cli
