// What a client may ask of the router and what it hears, in the words of no protocol. Adapters (gRPC's is
// generation_service) turn their own messages into requests for the Generator, and its events into their own messages.
#ifndef BATON_ROUTER_GENERATION_H_
#define BATON_ROUTER_GENERATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/ids.h"
#include "common/output_grammar.h"
#include "common/output_token.h"
#include "common/prompt_logprob.h"
#include "common/sampling_params.h"
#include "common/trace_headers.h"
#include "router/job.h"
#include "tokenizer/chat_template.h"

namespace baton::router {

// Raw text; special tokens in it are parsed.
struct TextPrompt {
  std::string text;
  // The tokens that the tokenizer puts around a text: BOS, if the model asks for it.
  bool add_special_tokens = true;
};
// The model's own chat template renders the messages.
struct ChatPrompt {
  std::vector<tokenizer::ChatMessage> messages;
  // As tokenizer::ChatInput has them.
  std::string tools = {};
  std::string variables = {};
  // The answer goes on from this text, which is not part of it. Special tokens in it are parsed.
  std::string answer_begin = {};
};
struct TokenPrompt {
  std::vector<int32_t> ids;
};
// std::monostate stands for a request without a prompt.
using Prompt = std::variant<std::monostate, TextPrompt, ChatPrompt, TokenPrompt>;

// SamplingParams (common/sampling_params.h) as a client states them. A field without a value takes the served model's
// default; a missing seed is drawn by the router.
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
  // In any order.
  std::vector<TokenBias> logit_bias;
  // Without a value, tokens come without log-probabilities.
  std::optional<int32_t> logprobs;
  // Likewise for the prompt's tokens.
  std::optional<int32_t> prompt_logprobs;
  // The one output token (max_tokens is 1 then) has the prompt's embedding.
  Pooling pooling = Pooling::kNone;
  // What the whole output must match.
  OutputGrammar grammar = {};
  // What the client calls it, for errors.
  const char* grammar_field = "sampling.grammar";
};

struct GenerationRequest {
  // Drawn by the adapter (RandomSource::NextId), which names the request with it to Generator::Cancel.
  JobId id;
  // Empty: the one model that is served.
  std::string model;
  Prompt prompt;
  // What the client calls the prompt, for errors. Null: each kind of prompt has the name of Baton's own API.
  const char* prompt_field = nullptr;
  SamplingRequest sampling;
  // The output ends before the first of these strings.
  std::vector<std::string> stop;
  bool want_kv_digest = false;
  // The answer has the prompt's text; a chat has none.
  bool echo = false;
  // The answer has the prompt's tokens, for each choice; not that of a job that is kept.
  bool want_prompt_tokens = false;
  // As JobSpec::allows_other_numerics.
  bool allow_other_numerics = false;
  // Prefix blocks are shared only within one tenant. This is what the client states; nobody has verified it. Refused
  // beside an authenticated tenant.
  std::string tenant;
  // From kMinPriority to kMaxPriority.
  int32_t priority = 0;
  // The tenant that an adapter has verified; empty where clients need no key.
  std::string authenticated_tenant;
  // Goes to the workers with the job.
  TraceHeaders trace;
  // When the request reached the adapter, and when its client stops waiting.
  TimeNs arrived = 0;
  TimeNs deadline = kNever;

  // A later call can follow the job by its id (live_jobs.h).
  bool resumable = false;
  // A key of the tenant's own: a request with the key of an earlier one follows the job of that one. Empty: none.
  std::string idempotency_key;
  // Beside an idempotency key: the digest of all that the client's message says, the key apart.
  Digest128 body;

  // How many outputs of each prompt the client wants. The seed of choice i of a prompt is that of the request plus i. A
  // job that is kept has one choice.
  int32_t choices = 1;
  // Their choices come behind those of `prompt`, in order: at most kMaxChoices of all prompts together.
  std::vector<Prompt> more_prompts;

  // Of all prompts.
  size_t total_choices() const { return static_cast<size_t>(std::max(choices, 0)) * (1 + more_prompts.size()); }
};

// A call that follows a job which an earlier call has begun.
struct ResumeRequest {
  // As in GenerationRequest, of this call.
  JobId id;
  // The job's.
  JobId job;
  // The index of the first token that the client has not seen.
  int32_t next_index = 0;
  // How many bytes of the text the client has; without a value, those that came with the tokens before `next_index`.
  std::optional<int64_t> text_bytes;
  std::string authenticated_tenant;
};

// The router has taken the request. This event comes at once, also when the prompt has to wait for a worker.
struct GenerationAccepted {
  JobId id;
  // The seed that the client stated, or that the router drew.
  uint64_t seed = 0;
  int32_t prompt_tokens = 0;
  // A later call can follow the job. The client is told, before any token.
  bool is_kept = false;
  // This call follows a job that an earlier one has begun.
  bool follows = false;
};

// How one choice ended.
struct ChoiceEnd {
  FinishReason reason = FinishReason::kLength;
  // Which of the request's stop strings ended the output, by its index. Without a value something else did, or the
  // result comes from a journal, which does not keep it.
  std::optional<int> stop_index = std::nullopt;
  // Prompt tokens of this choice alone whose KV came from the prefix cache, also when they were there because another
  // choice had them computed.
  int32_t cached_prompt_tokens = 0;
};

// What an answer says of the request's prompt.
struct GenerationPrompt {
  // Without a value, the request did not ask for it.
  std::optional<std::string> text;
  std::vector<int32_t> tokens;
  // Of the tokens from the second on; null: the request did not ask for them.
  std::shared_ptr<const std::vector<PromptLogprob>> logprobs;
};

// The next tokens of the output of one choice, and the text that has become certain with them.
struct GenerationDelta {
  // Whole characters. Text that may begin a stop string waits for a later delta.
  std::string text;
  std::vector<OutputToken> tokens = {};
  // The request asked for log-probabilities, so the tokens have them.
  bool has_logprobs = false;
  // From 0.
  int32_t choice = 0;
  // This is the choice's last delta, of a request for several. A request for one ends with GenerationFinished alone.
  std::optional<ChoiceEnd> end = std::nullopt;
  // In the first delta of a choice with tokens, and there only where the request asks for something of it.
  std::shared_ptr<const GenerationPrompt> prompt = nullptr;
};

struct GenerationUsage {
  // Of all prompts.
  int32_t prompt_tokens = 0;
  // Of all choices.
  int32_t output_tokens = 0;
  // Prompt tokens whose KV came from the prefix cache.
  int32_t cached_prompt_tokens = 0;
};

// Measured on the router's clock since the request arrived. The phases and the network, which is the time from the end
// of the job to this message, add up to the total.
struct GenerationTiming {
  PhaseTimes phases;
  int64_t network_ns = 0;
  int64_t total_ns = 0;
};

// All choices have ended well. What a job says of itself is here that of choice 0; the times are those of the choice
// which ended last.
struct GenerationFinished {
  JobId id;
  uint64_t seed = 0;
  FinishReason reason = FinishReason::kLength;
  // As in ChoiceEnd.
  std::optional<int> stop_index;
  // Of each choice of a request for several; empty for one choice.
  std::vector<ChoiceEnd> choices = {};
  GenerationUsage usage;
  // 32 hex digits; empty when the request did not ask for it.
  std::string kv_digest;
  // As JobResult has it.
  std::optional<int32_t> other_numerics_from = std::nullopt;
  GenerationTiming timing;
  // The hand-off as the decode worker measured it.
  WorkerReport decode;
  // All that the dispatcher says of the job, for those who observe requests.
  std::shared_ptr<const JobResult> job = nullptr;
};

// The status is not OK; error_details.h has its details.
struct GenerationFailed {
  absl::Status status;
  // As in GenerationFinished; null when the dispatcher never had the job.
  std::shared_ptr<const JobResult> job = nullptr;
};

using GenerationEvent = std::variant<GenerationAccepted, GenerationDelta, GenerationFinished, GenerationFailed>;

// The client's end of one request, which an adapter implements. It hears GenerationAccepted, any number of
// GenerationDelta, and then either GenerationFinished or GenerationFailed, which is the last event. A request that is
// refused hears GenerationFailed alone. Calls come from one thread at a time and must not block: they run on the thread
// that called Generator::Generate and on the router's loop.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;

  // False when the client has left kMaxUnreadOutputTokens or kMaxUnreadOutputBytes unread: the event is then dropped,
  // and GenerationFailed follows, for which there is always room. A sink may merge the deltas that wait for the client.
  [[nodiscard]] virtual bool Write(GenerationEvent event) = 0;
  // Whether Write would take the delta now. Asked by those who can wait with what they have.
  virtual bool HasRoom(const GenerationDelta& delta) const { return true; }
  // The client has left so much unread that its job should rather wait for it (PendingOutput::is_behind).
  virtual bool is_behind() const { return false; }
  // The client cancelled or is gone. Its adapter says so before it calls Generator::Cancel.
  virtual bool cancelled() const = 0;
};

// What an adapter asks of the router. Thread-safe. Generator is the real one.
class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;

  // Checks and tokenizes on the caller's thread. `sink` hears how the request goes, also when it is refused.
  virtual void Generate(GenerationRequest request, std::shared_ptr<GenerationSink> sink) = 0;
  // Ends the request with CANCELLED; does nothing when it has ended already.
  virtual void Cancel(const JobId& id) = 0;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_GENERATION_H_
