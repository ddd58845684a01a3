#include "router/served_model.h"

#include <utility>

#include "common/status.h"

namespace baton::router {

absl::StatusOr<ServedModel> ServedModel::Create(std::string name, const modelfile::ModelFile& file) {
  ServedModel model;
  model.name = std::move(name);
  model.config = file.config();
  const modelfile::TokenizerSpec& spec = file.tokenizer();
  BATON_ASSIGN_OR_RETURN(model.tokenizer, tokenizer::Tokenizer::Create(spec));
  if (!spec.chat_template.empty()) {
    BATON_ASSIGN_OR_RETURN(model.chat_template, tokenizer::ChatTemplate::Parse(spec.chat_template));
  }
  return model;
}

}  // namespace baton::router
