// What is wrong with a command line, in one line.
#ifndef BATON_CLI_USAGE_ERROR_H_
#define BATON_CLI_USAGE_ERROR_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace baton::cli {

// Explains why `app` did not parse `args`: INVALID_ARGUMENT names the flag, or the environment variable that has the
// wrong value, and says what was expected. Parsed values are lost.
absl::Status UsageError(CLI::App& app, const std::vector<std::string>& args, const CLI::ParseError& error);

}  // namespace baton::cli

#endif  // BATON_CLI_USAGE_ERROR_H_
