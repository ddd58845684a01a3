#include "router/served_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace baton::router {
namespace {

absl::StatusOr<SamplingParams> ReadSamplingDefaults(const modelfile::ModelFile& file) {
  const modelfile::SamplingDefaults& stated = file.sampling_defaults();
  SamplingParams params;
  params.temperature = stated.temperature.value_or(params.temperature);
  params.top_k = stated.top_k.value_or(params.top_k);
  params.top_p = stated.top_p.value_or(params.top_p);
  params.min_p = stated.min_p.value_or(params.min_p);
  params.repetition_penalty = stated.repetition_penalty.value_or(params.repetition_penalty);
  const absl::Status status = ValidateSamplingParams(params, file.config().vocab_size);
  if (status.ok()) return params;
  return absl::InvalidArgumentError(
      absl::StrCat("the model's generation_config.json: ", status.message(), "; correct the file"));
}

}  // namespace

absl::StatusOr<ServedModel> ServedModel::Create(std::string name, const modelfile::ModelFile& file) {
  ServedModel model;
  model.name = std::move(name);
  model.config = file.config();
  BATON_ASSIGN_OR_RETURN(model.sampling_defaults, ReadSamplingDefaults(file));
  const modelfile::TokenizerSpec& spec = file.tokenizer();
  BATON_ASSIGN_OR_RETURN(model.tokenizer, tokenizer::Tokenizer::Create(spec));
  if (!spec.chat_template.empty()) {
    BATON_ASSIGN_OR_RETURN(model.chat_template, tokenizer::ChatTemplate::Parse(spec.chat_template));
  }
  return model;
}

}  // namespace baton::router
