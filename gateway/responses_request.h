// Reads the bodies of OpenAI's /v1/responses. Nothing is silently ignored: a field that is not known, or not built, is
// refused by its name. docs/responses.md has the table of all fields.
#ifndef BATON_GATEWAY_RESPONSES_REQUEST_H_
#define BATON_GATEWAY_RESPONSES_REQUEST_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gateway/tools/tool_call_parser.h"
#include "gateway/tools/tool_style.h"
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
  std::string parallel_tool_calls = "true";
  std::string temperature = "null";
  std::string text = R"({"format":{"type":"text"}})";
  std::string tool_choice = R"("auto")";
  std::string tools = "[]";
  std::string top_p = "null";
  // How the calls in the answer are found.
  ToolReading reading;
};

// The errors are for clients, as those of RequestReader.
absl::StatusOr<ResponsesRequest> ReadResponsesRequest(std::string_view body, const ChatModel& model);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_RESPONSES_REQUEST_H_
