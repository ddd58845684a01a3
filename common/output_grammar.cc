#include "common/output_grammar.h"

#include "nlohmann/json.hpp"

namespace baton {

OutputGrammar ChoiceGrammar(const std::vector<std::string>& texts) {
  return {.kind = GrammarKind::kChoice,
          .text = nlohmann::json(texts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace baton
