// A synchronous client of baton.v1, for the command line.
#ifndef BATON_CLI_GENERATION_CLIENT_H_
#define BATON_CLI_GENERATION_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/generation.grpc.pb.h"

namespace baton::cli {

// Everything that one Generate call returned.
struct Generation {
  std::vector<v1::OutputToken> tokens;
  std::string text;
  v1::Finished finished;
};

class GenerationClient {
 public:
  explicit GenerationClient(const std::string& target);

  // Calls `on_output` with each message as it arrives; when it returns false, the call ends with what has come so far.
  // A `timeout_ms` of 0 means none. Errors name a target that cannot be reached.
  absl::StatusOr<Generation> Generate(const v1::GenerateRequest& request, int64_t timeout_ms,
                                      const std::function<bool(const v1::Output&)>& on_output);

 private:
  const std::string target_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace baton::cli

#endif  // BATON_CLI_GENERATION_CLIENT_H_
