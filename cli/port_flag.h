// Flags that take a port or "off".
#ifndef BATON_CLI_PORT_FLAG_H_
#define BATON_CLI_PORT_FLAG_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"

namespace baton::cli {

// For an option that takes a port from 0, which is any free one, or "off".
CLI::Validator PortOrOffCheck();
// The port that a flag of the kind says; nullopt: off. An empty text stands for `default_port`.
std::optional<int> PortOrOff(const std::string& text, int default_port);

}  // namespace baton::cli

#endif  // BATON_CLI_PORT_FLAG_H_
