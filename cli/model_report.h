// ModelFacts as JSON for programs and as text for people.
#ifndef BATON_CLI_MODEL_REPORT_H_
#define BATON_CLI_MODEL_REPORT_H_

#include <string>

#include "cli/model_facts.h"
#include "nlohmann/json.hpp"

namespace baton::cli {

// All there is, under the keys of docs/models.md. Reads the whole file for its digest.
nlohmann::ordered_json ModelFactsJson(const ModelFacts& facts);

struct ModelReportOptions {
  // How the user wrote the memory that facts.memory is about. Empty: none.
  std::string memory;
  bool metadata = false;
  bool tensors = false;
};
std::string ModelFactsText(const ModelFacts& facts, const ModelReportOptions& options);

}  // namespace baton::cli

#endif  // BATON_CLI_MODEL_REPORT_H_
