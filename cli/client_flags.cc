#include "cli/client_flags.h"

#include "cli/options.h"

namespace baton::cli {

void AddClientFlags(CLI::App& command, ClientFlags& flags) {
  AddTargetFlags(command, flags.router);
  AddClientModelFlag(command, flags.model);
  command.add_option("--timeout-ms", flags.timeout_ms, "deadline of each request; 0: none")
      ->check(CLI::NonNegativeNumber);
  AddSamplingFlags(command, flags.sampling);
}

}  // namespace baton::cli
