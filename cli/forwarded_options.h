// How `serve` hands its options on to the processes that it starts.
#ifndef BATON_CLI_FORWARDED_OPTIONS_H_
#define BATON_CLI_FORWARDED_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace baton::cli {

// The arguments that give command `to` what the user set on command `from`, which has been parsed: by a flag, the
// environment or a file. Left out are options that `to` does not know and those of kAddressGroup, where every process
// has a value of its own. What the user did not set has the same default in both commands.
std::vector<std::string> ForwardedArgs(const CLI::App& from, const CLI::App& to);

}  // namespace baton::cli

#endif  // BATON_CLI_FORWARDED_OPTIONS_H_
