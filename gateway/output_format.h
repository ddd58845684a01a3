// How clients of the HTTP APIs say what the whole answer must match.
#ifndef BATON_GATEWAY_OUTPUT_FORMAT_H_
#define BATON_GATEWAY_OUTPUT_FORMAT_H_

#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "router/generation.h"

namespace baton::gateway {

// `object` is what ParseJsonObject made of `body`, whose text also has the order of a schema's properties. The grammar
// is not compiled: the router's request reader does that.

// vLLM's structured_outputs.
absl::Status ReadStructuredOutputs(const nlohmann::json& object, std::string_view body,
                                   router::SamplingRequest& sampling);

// OpenAI's response_format, or structured_outputs.
absl::Status ReadOpenAiFormat(const nlohmann::json& object, std::string_view body, router::SamplingRequest& sampling);

// The text.format of OpenAI's responses, whose schema lies beside its type.
absl::Status ReadResponsesFormat(const nlohmann::json& object, std::string_view body,
                                 router::SamplingRequest& sampling);

// Anthropic's output_config.format, and output_format, its former name.
absl::Status ReadAnthropicFormat(const nlohmann::json& object, std::string_view body,
                                 router::SamplingRequest& sampling);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_OUTPUT_FORMAT_H_
