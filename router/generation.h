// What a client may ask of the router, in the words of no protocol. Adapters (gRPC's is generation_service) turn their
// own messages into these.
#ifndef BATON_ROUTER_GENERATION_H_
#define BATON_ROUTER_GENERATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "tokenizer/chat_template.h"

namespace baton::router {

// Raw text; special tokens in it are parsed.
struct TextPrompt {
  std::string text;
};
// The model's own chat template renders the messages.
struct ChatPrompt {
  std::vector<tokenizer::ChatMessage> messages;
};
struct TokenPrompt {
  std::vector<int32_t> ids;
};
// std::monostate: the client sent no prompt.
using Prompt = std::variant<std::monostate, TextPrompt, ChatPrompt, TokenPrompt>;

// SamplingParams (common/sampling_params.h) as a client states them. A field without a value takes the served model's
// default, except that the router draws a seed.
struct SamplingRequest {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> presence_penalty;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;
  std::optional<int32_t> min_tokens;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;
  // No value: no log-probabilities.
  std::optional<int32_t> logprobs;
};

struct GenerationRequest {
  // The adapter draws it (RandomSource::NextId), so that it can cancel the request at any time.
  JobId id;
  // Empty: the one model that is served.
  std::string model;
  Prompt prompt;
  SamplingRequest sampling;
  // The output ends before the first of these strings.
  std::vector<std::string> stop;
  bool want_kv_digest = false;
  // Prefix blocks are shared only within one tenant. The client states it; nobody has verified it.
  std::string tenant;
  // W3C traceparent of the client, carried through; empty: none.
  std::string trace_context;
  // When the request reached the adapter, and when its client stops waiting.
  TimeNs arrived = 0;
  TimeNs deadline = kNever;

  // Not built yet. RequestReader refuses every value but the default with UNIMPLEMENTED and the field's name.
  int32_t choices = 1;
  std::string grammar;
  int32_t priority = 0;
  // The tenant that an adapter has verified.
  std::string authenticated_tenant;
  std::string idempotency_key;
  // Index of the first token that the client has not seen.
  int32_t resume_index = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_H_
