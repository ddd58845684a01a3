#include "router/request_reader.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/status.h"
#include "grammar/grammar.h"
#include "router/error_details.h"
#include "router/refusal_reason.h"
#include "tokenizer/rendered_chat.h"

namespace baton::router {
namespace {

// An error message shows this much of a model's name.
constexpr size_t kMaxShownNameBytes = 128;
// Readers of JSON that keep numbers as doubles lose the last digits of larger ones.
constexpr int kDrawnSeedBits = 53;
constexpr size_t kNoBound = std::numeric_limits<size_t>::max();

// A violation of `field` with the message of `status`.
absl::Status ViolationOf(std::string_view field, const absl::Status& status) {
  return FieldViolation(field, ToStd(status.message()));
}

absl::Status CheckChoices(const GenerationRequest& request) {
  if (request.choices < 1 || request.choices > kMaxChoices) {
    return FieldViolation("choices", absl::StrCat("must be in [1, ", kMaxChoices, "]"));
  }
  const size_t total = request.total_choices();
  if (total > kMaxChoices) {
    return FieldViolation("choices", absl::StrCat("at most ", kMaxChoices, " of all prompts together, not ", total));
  }
  const bool is_kept = request.resumable || !request.idempotency_key.empty();
  if (total == 1 || !is_kept) return absl::OkStatus();
  return FieldViolation("choices", "a job that is kept has one choice");
}

// Workers compile it again. What the router has taken, they take.
absl::Status CheckGrammar(const OutputGrammar& source, const char* field) {
  if (source.empty()) return absl::OkStatus();
  const absl::Status status = grammar::CompileGrammar(source).status();
  if (absl::IsUnimplemented(status)) {
    return FieldStatus(status.code(), {.field = field, .description = std::string(status.message())});
  }
  return status.ok() ? status : ViolationOf(field, status);
}

// A client that has shown whose it is cannot speak for another one.
absl::StatusOr<std::string> ReadTenant(const GenerationRequest& request) {
  if (request.authenticated_tenant.empty()) return request.tenant;
  if (request.tenant.empty()) return request.authenticated_tenant;
  return FieldViolation("tenant", "the API key says whose the request is: leave the field empty");
}

absl::Status BeyondContext(const std::string& how_many, int32_t context_length) {
  return WithReason(FieldViolation("prompt", absl::StrCat(how_many, " tokens leave no room in the model's context of ",
                                                          context_length)),
                    RefusalReason::kTooLong);
}

size_t BytesOf(const ChatPrompt& chat) {
  size_t bytes = chat.tools.size() + chat.variables.size() + chat.answer_begin.size();
  for (const tokenizer::ChatMessage& message : chat.messages) {
    bytes += message.role.size() + message.content.size() + message.tool_call_id.size() + message.name.size();
    for (const tokenizer::ChatToolCall& call : message.tool_calls) {
      bytes += call.id.size() + call.name.size() + call.arguments.size();
    }
  }
  return bytes;
}

absl::Status CheckStop(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStopStrings) {
    return FieldViolation("stop", absl::StrCat("at most ", kMaxStopStrings, " strings, not ", stops.size()));
  }
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > kMaxStopStringBytes) {
      return FieldViolation("stop", absl::StrCat("each string has 1 to ", kMaxStopStringBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

// What a job says of its prompt comes with its first output alone, so it is not kept for a later call.
absl::Status CheckPromptWishes(const GenerationRequest& request) {
  const char* const field = request.echo                                   ? "echo"
                            : request.sampling.prompt_logprobs.has_value() ? "sampling.prompt_logprobs"
                                                                           : nullptr;
  const bool is_kept = request.resumable || !request.idempotency_key.empty();
  if (field == nullptr || !is_kept) return absl::OkStatus();
  return FieldStatus(absl::StatusCode::kUnimplemented,
                     {.field = field, .description = "not supported beside resumable or idempotency_key"});
}

// `tokens`: those of the prompts of all choices together, each of which is shown with its prompt.
absl::Status CheckPromptLogprobs(const SamplingParams& sampling, size_t tokens) {
  if (sampling.prompt_logprobs < 0) return absl::OkStatus();
  const size_t bytes = PromptLogprobBytes(tokens, static_cast<size_t>(sampling.prompt_logprobs));
  if (bytes <= kMaxPromptLogprobBytes) return absl::OkStatus();
  return FieldViolation("sampling.prompt_logprobs",
                        absl::StrCat("those of ", tokens, " tokens take ", bytes, " bytes, and at most ",
                                     kMaxPromptLogprobBytes, " are given: ask for fewer likely tokens or choices"));
}

}  // namespace

absl::Status RequestReader::CheckModel(const std::string& model) const {
  if (model.empty() || model == model_.name) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("model ", model.substr(0, kMaxShownNameBytes), " is not served here; ", model_.name, " is"));
}

absl::StatusOr<std::vector<int32_t>> RequestReader::Encode(const std::string& text, const char* field,
                                                           const tokenizer::EncodeOptions& options) const {
  const tokenizer::Tokenizer& tokenizer = *model_.tokenizer;
  if (const size_t least = tokenizer.MinTokens(text); least > options.max_ids) {
    return BeyondContext(absl::StrCat("at least ", least), model_.config.context_length);
  }
  auto ids = tokenizer.Encode(text, options);
  if (absl::IsOutOfRange(ids.status())) {
    return BeyondContext(absl::StrCat("more than ", options.max_ids), model_.config.context_length);
  }
  if (!ids.ok()) return ViolationOf(field, ids.status());
  return ids;
}

absl::StatusOr<std::vector<int32_t>> RequestReader::EncodeText(const TextPrompt& prompt, size_t max_ids) const {
  if (prompt.text.size() > kMaxPromptBytes) {
    return FieldViolation("text", absl::StrCat("at most ", kMaxPromptBytes, " bytes, not ", prompt.text.size()));
  }
  return Encode(prompt.text, "text", {.add_bos = prompt.add_special_tokens, .parse_special = true, .max_ids = max_ids});
}

absl::StatusOr<std::vector<int32_t>> RequestReader::EncodeChat(const ChatPrompt& chat, size_t max_ids) const {
  if (!model_.chat_template.has_value()) return FieldViolation("chat", "this model has no chat template: send text");
  if (chat.messages.empty() || chat.messages.size() > kMaxChatMessages) {
    return FieldViolation("chat.messages",
                          absl::StrCat("1 to ", kMaxChatMessages, " messages, not ", chat.messages.size()));
  }
  const size_t bytes = BytesOf(chat);
  if (bytes > kMaxPromptBytes) {
    return FieldViolation("chat.messages", absl::StrCat("at most ", kMaxPromptBytes, " bytes, not ", bytes));
  }
  const auto rendered =
      tokenizer::RenderChat(*model_.chat_template, *model_.tokenizer,
                            {.messages = chat.messages, .tools = chat.tools, .variables = chat.variables});
  if (!rendered.ok()) return ViolationOf("chat", rendered.status());
  return Encode(rendered->text + chat.answer_begin, "chat",
                {.add_bos = false, .parse_special = true, .literal_at = rendered->literal_at, .max_ids = max_ids});
}

absl::StatusOr<std::vector<int32_t>> RequestReader::EncodePrompt(Prompt prompt) const {
  // One token of the context is left for the output.
  const auto max_ids = static_cast<size_t>(model_.config.context_length) - 1;
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) return EncodeText(*text, max_ids);
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) return EncodeChat(*chat, max_ids);
  if (auto* tokens = std::get_if<TokenPrompt>(&prompt)) {
    if (tokens->ids.size() <= max_ids) return std::move(tokens->ids);
    return BeyondContext(absl::StrCat(tokens->ids.size()), model_.config.context_length);
  }
  return FieldViolation("prompt", "set text, chat or token_ids");
}

absl::StatusOr<std::vector<int32_t>> RequestReader::ReadPrompt(Prompt prompt) const {
  BATON_ASSIGN_OR_RETURN(std::vector<int32_t> ids, EncodePrompt(std::move(prompt)));
  if (ids.empty()) return FieldViolation("prompt", "must not be empty");
  for (int32_t id : ids) {
    if (id < 0 || id >= model_.config.vocab_size) {
      return FieldViolation("token_ids", absl::StrCat("id ", id, " is not in [0, ", model_.config.vocab_size, ")"));
    }
  }
  return ids;
}

absl::StatusOr<SamplingParams> RequestReader::ReadSampling(const SamplingRequest& request) const {
  SamplingParams params = model_.sampling_defaults;
  params.temperature = request.temperature.value_or(params.temperature);
  params.top_k = request.top_k.value_or(params.top_k);
  params.top_p = request.top_p.value_or(params.top_p);
  params.min_p = request.min_p.value_or(params.min_p);
  params.repetition_penalty = request.repetition_penalty.value_or(params.repetition_penalty);
  params.frequency_penalty = request.frequency_penalty.value_or(params.frequency_penalty);
  params.presence_penalty = request.presence_penalty.value_or(params.presence_penalty);
  params.seed = request.seed.has_value() ? *request.seed : random_.Next64() >> (64 - kDrawnSeedBits);
  params.max_tokens = request.max_tokens.value_or(params.max_tokens);
  params.min_tokens = request.min_tokens.value_or(params.min_tokens);
  params.ignore_eos = request.ignore_eos;
  params.stop_token_ids = request.stop_token_ids;
  params.logit_bias = request.logit_bias;
  // What is too much is refused below, and is not worth sorting.
  if (params.logit_bias.size() <= kMaxLogitBiases) {
    std::sort(params.logit_bias.begin(), params.logit_bias.end(),
              [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  }
  if (request.logprobs.has_value()) {
    // SamplingParams says "none" with -1; a client leaves the field out instead.
    if (*request.logprobs < 0) return FieldViolation("sampling.logprobs", "must not be negative");
    params.logprobs = *request.logprobs;
  }
  if (request.prompt_logprobs.has_value()) {
    if (*request.prompt_logprobs < 0) return FieldViolation("sampling.prompt_logprobs", "must not be negative");
    params.prompt_logprobs = *request.prompt_logprobs;
  }
  params.pooling = request.pooling;
  params.grammar = request.grammar;
  const absl::Status status = ValidateSamplingParams(params, model_.config.vocab_size);
  if (status.ok()) {
    BATON_RETURN_IF_ERROR(CheckGrammar(params.grammar, request.grammar_field));
    return params;
  }
  const std::string message(status.message());
  const size_t colon = message.find(": ");
  return FieldViolation("sampling." + message.substr(0, colon), message.substr(colon + 2));
}

absl::StatusOr<std::string> RequestReader::ReadEcho(const Prompt& prompt) const {
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) return text->text;
  const auto* const tokens = std::get_if<TokenPrompt>(&prompt);
  if (tokens == nullptr) return FieldViolation("echo", "only a prompt of text or token ids has a text to repeat");
  auto text = model_.tokenizer->Decode(tokens->ids, /*skip_special=*/false, kMaxDetokenizedBytes);
  if (!text.ok()) return ViolationOf("token_ids", text.status());
  return text;
}

// How many outputs the job has at the least, whatever the model says.
int32_t RequestReader::LeastOutputs(const JobSpec& job, bool without_stops) const {
  const bool runs_to_its_limit = job.sampling.ignore_eos && job.sampling.stop_token_ids.empty() && without_stops;
  const int64_t room = model_.config.context_length - job.prompt_tokens();
  const int64_t least = runs_to_its_limit ? std::min<int64_t>(job.sampling.max_tokens, room) : 1;
  return static_cast<int32_t>(std::max<int64_t>(least, 1));
}

// What the prompts share, such as a grammar, is read with the first one.
absl::StatusOr<std::vector<PreparedJob>> RequestReader::ReadAll(GenerationRequest request) const {
  BATON_RETURN_IF_ERROR(CheckChoices(request));
  const std::vector<Prompt> more_prompts = std::move(request.more_prompts);
  const auto choices = static_cast<uint32_t>(request.choices);
  const PromptReading reading = ReadingOf(request);
  std::vector<PreparedJob> jobs;
  BATON_ASSIGN_OR_RETURN(PreparedJob first, Read(std::move(request)));
  jobs.push_back(std::move(first));
  size_t tokens = jobs.front().job.prompt.size();
  for (const Prompt& prompt : more_prompts) {
    PreparedJob next = jobs.front();
    next.job.choice = choices * static_cast<uint32_t>(jobs.size());
    BATON_RETURN_IF_ERROR(ReadPromptOf(prompt, reading, next.job, next.echo));
    tokens += next.job.prompt.size();
    BATON_RETURN_IF_ERROR(CheckPromptLogprobs(next.job.sampling, tokens * choices));
    jobs.push_back(std::move(next));
  }
  return jobs;
}

absl::Status RequestReader::ReadPromptOf(Prompt prompt, const PromptReading& reading, JobSpec& job,
                                         std::optional<std::string>& echo) const {
  if (reading.echo) {
    BATON_ASSIGN_OR_RETURN(echo, ReadEcho(prompt));
  }
  absl::StatusOr<std::vector<int32_t>> ids = ReadPrompt(std::move(prompt));
  if (!ids.ok()) return reading.field == nullptr ? ids.status() : WithField(ids.status(), reading.field);
  job.prompt = *std::move(ids);
  job.least_outputs = LeastOutputs(job, reading.without_stops);
  return CheckPromptLogprobs(job.sampling, job.prompt.size() * static_cast<size_t>(reading.choices));
}

absl::StatusOr<PreparedJob> RequestReader::Read(GenerationRequest request) const {
  BATON_RETURN_IF_ERROR(CheckModel(request.model));
  BATON_RETURN_IF_ERROR(CheckStop(request.stop));
  BATON_RETURN_IF_ERROR(CheckPromptWishes(request));
  if (request.tenant.size() > kMaxTenantBytes) {
    return FieldViolation("tenant", absl::StrCat("at most ", kMaxTenantBytes, " bytes"));
  }
  if (request.priority < kMinPriority || request.priority > kMaxPriority) {
    return FieldViolation("priority", absl::StrCat("must be in [", kMinPriority, ", ", kMaxPriority, "]"));
  }
  if (request.idempotency_key.size() > kMaxIdempotencyKeyBytes) {
    return FieldViolation("idempotency_key", absl::StrCat("at most ", kMaxIdempotencyKeyBytes, " bytes"));
  }
  BATON_ASSIGN_OR_RETURN(std::string tenant, ReadTenant(request));
  JobSpec job;
  BATON_ASSIGN_OR_RETURN(job.sampling, ReadSampling(request.sampling));
  std::optional<std::string> echo;
  BATON_RETURN_IF_ERROR(ReadPromptOf(std::move(request.prompt), ReadingOf(request), job, echo));
  absl::StatusOr<JobOutput> output = JobOutput::Create(*model_.tokenizer, request.stop);
  if (!output.ok()) return ViolationOf("stop", output.status());
  job.id = request.id;
  job.priority = request.priority;
  job.tenant = std::move(tenant);
  job.arrived = request.arrived;
  job.deadline = request.deadline;
  job.want_kv_digest = request.want_kv_digest;
  job.allows_other_numerics = request.allow_other_numerics;
  job.trace = std::move(request.trace);
  return PreparedJob{.job = std::move(job), .output = *std::move(output), .echo = std::move(echo)};
}

absl::StatusOr<std::vector<int32_t>> RequestReader::Tokenize(const std::string& model, const TextPrompt& prompt) const {
  BATON_RETURN_IF_ERROR(CheckModel(model));
  return EncodeText(prompt, kNoBound);
}

absl::StatusOr<std::vector<int32_t>> RequestReader::Tokenize(const std::string& model, const ChatPrompt& prompt) const {
  BATON_RETURN_IF_ERROR(CheckModel(model));
  return EncodeChat(prompt, kNoBound);
}

absl::StatusOr<std::vector<std::string>> RequestReader::TokenTexts(const std::string& model,
                                                                   absl::Span<const int32_t> token_ids) const {
  BATON_RETURN_IF_ERROR(CheckModel(model));
  if (token_ids.size() > kMaxDetokenizedTokens) {
    return FieldViolation("return_tokens",
                          absl::StrCat("at most ", kMaxDetokenizedTokens, " tokens, not ", token_ids.size()));
  }
  std::vector<std::string> texts;
  texts.reserve(token_ids.size());
  for (const int32_t id : token_ids) {
    if (!model_.tokenizer->IsValidId(id)) return FieldViolation("token_ids", absl::StrCat("no token has the id ", id));
    texts.push_back(model_.tokenizer->TokenBytes(id));
  }
  return texts;
}

absl::StatusOr<std::string> RequestReader::Detokenize(const std::string& model, absl::Span<const int32_t> token_ids,
                                                      bool skip_special_tokens) const {
  BATON_RETURN_IF_ERROR(CheckModel(model));
  auto text = model_.tokenizer->Decode(token_ids, skip_special_tokens, kMaxDetokenizedBytes);
  if (!text.ok()) return ViolationOf("token_ids", text.status());
  return text;
}

}  // namespace baton::router
