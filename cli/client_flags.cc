#include "cli/client_flags.h"

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "common/utf8.h"

namespace baton::cli {

void AddClientFlags(CLI::App& command, ClientFlags& flags) {
  AddTargetFlags(command, flags.router);
  AddClientModelFlag(command, flags.model);
  command.add_option("--timeout-ms", flags.timeout_ms, "deadline of each request; 0: none")
      ->check(CLI::NonNegativeNumber);
  AddSamplingFlags(command, flags.sampling);
}

absl::Status CheckUtf8(const std::string& text) {
  const size_t valid = ValidUtf8Bytes(text);
  if (valid == text.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the text is not valid UTF-8 at byte ", valid));
}

}  // namespace baton::cli
