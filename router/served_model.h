// What the router knows about the model: its name, its tokenizer and chat template, its limits. Only workers read the
// weights.
#ifndef BATON_ROUTER_SERVED_MODEL_H_
#define BATON_ROUTER_SERVED_MODEL_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/sampling_params.h"
#include "modelfile/model_file.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace baton::router {

// Immutable; thread-safe.
struct ServedModel {
  std::string name;
  modelfile::ModelConfig config;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  // Empty when the model has no template; the router then refuses chat prompts.
  std::optional<tokenizer::ChatTemplate> chat_template;

  // Values for the fields that a client leaves unset. They come from the model's files (ModelFile::sampling_defaults)
  // where those have them, and from SamplingParams otherwise.
  SamplingParams sampling_defaults;

  // Copies what it needs from `file`. INVALID_ARGUMENT when the model's sampling defaults are values that a client's
  // request would be refused for.
  static absl::StatusOr<ServedModel> Create(std::string name, const modelfile::ModelFile& file);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_SERVED_MODEL_H_
