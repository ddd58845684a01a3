// Checks client requests and turns them into jobs. It enforces every limit on what a client may ask for.
#ifndef BATON_ROUTER_REQUEST_READER_H_
#define BATON_ROUTER_REQUEST_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/random.h"
#include "router/generation.h"
#include "router/job.h"
#include "router/job_output.h"
#include "router/served_model.h"

namespace baton::router {

// A request that can be dispatched, and what turns its tokens into text.
struct PreparedJob {
  JobSpec job;
  JobOutput output;
  // The prompt's text, where the request asks for it.
  std::optional<std::string> echo = std::nullopt;
};

// Thread-safe. Its only side effect is that it draws a seed for a request without one. Its errors are for clients:
// INVALID_ARGUMENT and UNIMPLEMENTED name the field at fault (error_details.h), NOT_FOUND says that the request names
// another model.
class RequestReader {
 public:
  // Both outlive the reader, and the model outlives the prepared jobs; `random` is thread-safe.
  RequestReader(const ServedModel& model, RandomSource& random) : model_(model), random_(random) {}

  // The first choice of each prompt, at least one; the others differ from it by their number and seed alone.
  absl::StatusOr<std::vector<PreparedJob>> ReadAll(GenerationRequest request) const;
  // That of the request's `prompt`, whatever it says of others and of choices.
  absl::StatusOr<PreparedJob> Read(GenerationRequest request) const;

  // The tokens that Read makes of the prompt, also of one beyond the model's context. An empty model name means the
  // served model, here and below.
  absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model, const TextPrompt& prompt) const;
  absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model, const ChatPrompt& prompt) const;
  // How each of the tokens is written, at most kMaxDetokenizedTokens: bytes that may begin or end within a character.
  absl::StatusOr<std::vector<std::string>> TokenTexts(const std::string& model,
                                                      absl::Span<const int32_t> token_ids) const;
  // Refuses tokens whose text is longer than kMaxDetokenizedBytes.
  absl::StatusOr<std::string> Detokenize(const std::string& model, absl::Span<const int32_t> token_ids,
                                         bool skip_special_tokens) const;

 private:
  absl::Status CheckModel(const std::string& model) const;
  // These two give up beyond `max_ids` with "prompt" as the field at fault. A text that is too long by its bytes alone
  // is not tokenized.
  absl::StatusOr<std::vector<int32_t>> EncodeText(const TextPrompt& prompt, size_t max_ids) const;
  absl::StatusOr<std::vector<int32_t>> EncodeChat(const ChatPrompt& chat, size_t max_ids) const;
  absl::StatusOr<std::vector<int32_t>> Encode(const std::string& text, const char* field,
                                              const tokenizer::EncodeOptions& options) const;
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(Prompt prompt) const;
  absl::StatusOr<std::vector<int32_t>> ReadPrompt(Prompt prompt) const;
  int32_t LeastOutputs(const JobSpec& job, bool without_stops) const;
  // What a request says of how its prompts are read.
  struct PromptReading {
    // GenerationRequest::prompt_field.
    const char* field = nullptr;
    bool echo = false;
    // It has no stop strings.
    bool without_stops = false;
    int32_t choices = 1;
  };
  static PromptReading ReadingOf(const GenerationRequest& request) {
    return {.field = request.prompt_field,
            .echo = request.echo,
            .without_stops = request.stop.empty(),
            .choices = request.choices};
  }
  // Sets what depends on the prompt.
  absl::Status ReadPromptOf(Prompt prompt, const PromptReading& reading, JobSpec& job,
                            std::optional<std::string>& echo) const;
  absl::StatusOr<std::string> ReadEcho(const Prompt& prompt) const;
  absl::StatusOr<SamplingParams> ReadSampling(const SamplingRequest& request) const;

  const ServedModel& model_;
  RandomSource& random_;
};

}  // namespace baton::router

#endif  // BATON_ROUTER_REQUEST_READER_H_
