// The flags of every command that generates as a client of a running cluster.
#ifndef BATON_CLI_CLIENT_FLAGS_H_
#define BATON_CLI_CLIENT_FLAGS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/router_channel.h"
#include "cli/sampling_flags.h"

namespace baton::cli {

struct ClientFlags {
  TargetFlags router;
  std::string model;
  int64_t timeout_ms = 0;
  SamplingFlags sampling;
};

// `flags` outlives `command`.
void AddClientFlags(CLI::App& command, ClientFlags& flags);

}  // namespace baton::cli

#endif  // BATON_CLI_CLIENT_FLAGS_H_
