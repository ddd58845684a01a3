// How `serve` hands its options on to the processes that it starts.
#ifndef BATON_CLI_FORWARDED_OPTIONS_H_
#define BATON_CLI_FORWARDED_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace baton::cli {

// The commands of those processes.
inline constexpr const char* kRoles[] = {"router", "prefill-worker", "decode-worker", "mixed-worker"};

// Lets `serve` take flags that are for the processes of one role alone: what a --config file holds in their section.
void AddRoleFlagOption(CLI::App& serve);
// The argument by which `serve` takes `arg`, as "--threads=2", for the processes of `role`.
std::string RoleFlag(const std::string& role, const std::string& arg);

// The arguments that give command `to` what the user set on command `from`, which has been parsed: by a flag, the
// environment or a file; in place of it, the flags that are for the role `to` alone. Left out are options that `to`
// does not know and those of kAddressGroup, where every process has a value of its own. What the user did not set has
// the same default in both commands.
std::vector<std::string> ForwardedArgs(const CLI::App& from, const CLI::App& to);

}  // namespace baton::cli

#endif  // BATON_CLI_FORWARDED_OPTIONS_H_
