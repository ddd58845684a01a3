// ModelFacts as JSON for programs and as text for people.
#ifndef BATON_CLI_MODEL_REPORT_H_
#define BATON_CLI_MODEL_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

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

// "94.1 MiB"
std::string ShowBytes(int64_t bytes);
// At least one row, all of as many cells. Each column is as wide as its widest cell; `left` columns are flush left.
std::string TextTable(const std::vector<std::vector<std::string>>& rows, size_t left);

}  // namespace baton::cli

#endif  // BATON_CLI_MODEL_REPORT_H_
