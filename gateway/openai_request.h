// Reads the bodies of OpenAI's /v1/completions and /v1/chat/completions, with the fields that vLLM adds to them.
// Nothing is silently ignored: a field that is not known, or not built, is refused by its name. docs/openai.md has the
// table of all fields.
#ifndef BATON_GATEWAY_OPENAI_REQUEST_H_
#define BATON_GATEWAY_OPENAI_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gateway/openai_prompt.h"
#include "gateway/tools/tool_call_parser.h"
#include "gateway/tools/tool_style.h"
#include "router/generation.h"

namespace baton::gateway {

enum class OpenAiEndpoint : uint8_t { kCompletions, kChat };

// What OpenAI takes where a request to /v1/completions does not say how many tokens it wants.
inline constexpr int32_t kCompletionsMaxTokens = 16;

inline constexpr size_t kMaxRequestIdBytes = 128;

struct OpenAiRequest {
  // Without id, times and trace.
  router::GenerationRequest generation;
  bool stream = false;
  // vLLM's: what the client calls its request, at most kMaxRequestIdBytes; empty: the answer's id is ours.
  std::string request_id;
  // A last chunk of the stream has the usage.
  bool include_usage = false;
  // vLLM's, beside include_usage: so has every other chunk.
  bool continuous_usage = false;
  // vLLM's: the choice has the ids of its tokens. Those of the prompt are in it too, or, of a chat, beside it.
  bool return_token_ids = false;
  // Baton's own: the answer says how long each phase took.
  bool return_phases = false;
  // It says how the calls in the answer to a chat are found.
  ToolReading tools;
  PromptWishes prompt = {};
};

// The errors are for clients, as those of RequestReader.
absl::StatusOr<OpenAiRequest> ReadOpenAiRequest(OpenAiEndpoint endpoint, std::string_view body, const ChatModel& model);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OPENAI_REQUEST_H_
