#include "cli/api_key_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/process.h"
#include "common/limits.h"
#include "router/api_keys.h"

namespace baton::cli {
namespace {

// The key goes to stdout, so that it can go straight into a file; the line for --api-keys, which is no secret, to
// stderr.
absl::Status DrawKey(const std::string& tenant) {
  if (!router::IsTenantName(tenant)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a tenant's name of 1 to ", kMaxTenantBytes, " letters, digits and characters of -_.@/"));
  }
  const std::string key = router::DrawApiKey();
  std::cout << key << std::endl;
  std::cerr << tenant << ": " << router::ApiKeyHashText(key) << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddApiKeyCommand(CLI::App& app, int& exit_code) {
  auto tenant = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("api-key", "draws an API key, to stdout, and its line for --api-keys, to stderr");
  command->add_option("TENANT", *tenant, "whose key it is")->required();
  command->callback([tenant, &exit_code] { exit_code = Report(DrawKey(*tenant)); });
}

}  // namespace baton::cli
