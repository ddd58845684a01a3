// Tests of JSON Schemas in the format of json-schema.org's suite. A file is an array of cases, each of which is a
// schema with tests, and each of these has data and says whether they are valid.
#ifndef BATON_GRAMMAR_TESTING_SCHEMA_SUITE_H_
#define BATON_GRAMMAR_TESTING_SCHEMA_SUITE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::grammar {

struct SuiteFile {
  std::string name;  // Below the folder, without ".json".
  // Tests whose data the grammar of the schema allows, in any order of members, just where they are valid.
  int num_right = 0;
  // Tests of schemas that are UNIMPLEMENTED.
  int num_refused = 0;
  // A line for each other test.
  std::vector<std::string> differences;

  int num_tests() const { return num_right + num_refused + static_cast<int>(differences.size()); }
};

// All files below the folder, those of its own first, by name. NOT_FOUND where there are none, INVALID_ARGUMENT names a
// file that is not in the format.
absl::StatusOr<std::vector<SuiteFile>> RunSchemaSuite(const std::string& folder);

// A table of Markdown with a row for each file, and one for all.
std::string SuiteTable(absl::Span<const SuiteFile> files);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TESTING_SCHEMA_SUITE_H_
