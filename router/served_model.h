// What the router knows of the model: its name, its text side, its limits. The weights are the workers' business.
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
  // Empty: the model has none, chat prompts are refused.
  std::optional<tokenizer::ChatTemplate> chat_template;

  // What counts for the fields of a request that the client did not set: the model's own where its files have them
  // (ModelFile::sampling_defaults), else those of SamplingParams.
  SamplingParams sampling_defaults;

  // Copies what it needs from `file`. INVALID_ARGUMENT for sampling defaults that no client may ask for.
  static absl::StatusOr<ServedModel> Create(std::string name, const modelfile::ModelFile& file);
};

}  // namespace baton::router

#endif  // BATON_ROUTER_SERVED_MODEL_H_
