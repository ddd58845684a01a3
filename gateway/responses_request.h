// Reads the bodies of OpenAI's /v1/responses. Nothing is silently ignored: a field that is not known, or not built, is
// refused by its name. docs/responses.md has the table of all fields.
#ifndef BATON_GATEWAY_RESPONSES_REQUEST_H_
#define BATON_GATEWAY_RESPONSES_REQUEST_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "router/generation.h"

namespace baton::gateway {

struct ResponsesRequest {
  // Without id, times and trace.
  router::GenerationRequest generation;
  bool stream = false;
  // What the answer repeats, as JSON.
  std::string instructions = "null";
  std::string max_output_tokens = "null";
  std::string metadata = "{}";
  std::string temperature = "null";
  std::string text = R"({"format":{"type":"text"}})";
  std::string top_p = "null";
};

// `context_length` is that of the served model, which bounds an answer where the request does not. The errors are for
// clients, as those of RequestReader.
absl::StatusOr<ResponsesRequest> ReadResponsesRequest(std::string_view body, int32_t context_length);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_RESPONSES_REQUEST_H_
