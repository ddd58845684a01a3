#include "grammar/testing/schema_suite.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "grammar/grammar.h"
#include "grammar/json_spelling.h"
#include "grammar/json_value.h"
#include "grammar/testing/any_order.h"

namespace baton::grammar {
namespace {

// With its numbers as they were written.
std::string SpellSchema(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return value.boolean ? "true" : "false";
    case JsonValue::Kind::kNumber:
      return value.text;
    case JsonValue::Kind::kString:
      return SpellJsonString(value.text);
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      break;
  }
  std::string text = value.is_object() ? "{" : "[";
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) text += ",";
    if (value.is_object()) text += SpellJsonString(value.keys[i]) + ":";
    text += SpellSchema(value.items[i]);
  }
  return text + (value.is_object() ? "}" : "]");
}

std::string DescriptionOf(const JsonValue& of) {
  const JsonValue* description = of.Find("description");
  return description != nullptr ? description->text : "no description";
}

// Notes what becomes of the tests of a case. False where it is not in the format.
bool RunCase(const JsonValue& suite_case, SuiteFile* file) {
  const JsonValue* schema = suite_case.Find("schema");
  const JsonValue* tests = suite_case.Find("tests");
  if (schema == nullptr || tests == nullptr || !tests->is_array()) return false;
  const auto grammar = CompileGrammar({GrammarKind::kJsonSchema, SpellSchema(*schema)});
  // A schema that nothing satisfies is refused too, and rightly so where no test is valid.
  const bool is_empty = absl::IsInvalidArgument(grammar.status()) &&
                        absl::StrContains(grammar.status().message(), "no output satisfies the grammar");
  for (const JsonValue& test : tests->items) {
    const JsonValue* data = test.Find("data");
    const JsonValue* valid = test.Find("valid");
    if (data == nullptr || valid == nullptr || !valid->is_bool()) return false;
    if (absl::IsUnimplemented(grammar.status())) {
      ++file->num_refused;
      continue;
    }
    const bool is_allowed = grammar.ok() && AllowsInAnyOrder(**grammar, *data);
    if ((grammar.ok() || is_empty) && is_allowed == valid->boolean) {
      ++file->num_right;
      continue;
    }
    file->differences.push_back(absl::StrCat(file->name, ": ", DescriptionOf(suite_case), ": ", DescriptionOf(test),
                                             valid->boolean ? ": is valid, but not allowed" : ": is allowed",
                                             grammar.ok() ? "" : ", ", grammar.status().message()));
  }
  return true;
}

absl::StatusOr<SuiteFile> RunFile(const std::string& folder, const std::string& name) {
  std::ifstream stream(folder + "/" + name + ".json");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  BATON_ASSIGN_OR_RETURN(const JsonValue cases, ParseJson(text, name));
  SuiteFile file;
  file.name = name;
  bool is_suite = cases.is_array();
  for (const JsonValue& suite_case : cases.items) is_suite = is_suite && RunCase(suite_case, &file);
  if (!is_suite) return absl::InvalidArgumentError(absl::StrCat(name, " is not an array of cases with tests"));
  return file;
}

std::string Row(const std::string& name, int tests, int right, int refused, int differ) {
  return absl::StrCat("| ", name, " | ", tests, " | ", right, " | ", refused, " | ", differ, " |\n");
}

}  // namespace

absl::StatusOr<std::vector<SuiteFile>> RunSchemaSuite(const std::string& folder) {
  // By how deep they lie, and by name.
  std::vector<std::pair<size_t, std::string>> names;
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(folder, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    std::filesystem::path path = it->path().lexically_relative(folder);
    if (path.extension() != ".json") continue;
    const std::string name = path.replace_extension().string();
    names.emplace_back(std::count(name.begin(), name.end(), '/'), name);
  }
  if (error || names.empty()) return absl::NotFoundError(absl::StrCat(folder, " has no files of tests"));
  std::sort(names.begin(), names.end());
  std::vector<SuiteFile> files;
  for (const auto& [depth, name] : names) {
    BATON_ASSIGN_OR_RETURN(SuiteFile file, RunFile(folder, name));
    files.push_back(std::move(file));
  }
  return files;
}

std::string SuiteTable(absl::Span<const SuiteFile> files) {
  std::string table = "| file | tests | right | refused by name | differ |\n|---|---|---|---|---|\n";
  int tests = 0;
  int right = 0;
  int refused = 0;
  int differ = 0;
  for (const SuiteFile& file : files) {
    const int differences = static_cast<int>(file.differences.size());
    table += Row(absl::StrCat("`", file.name, "`"), file.num_tests(), file.num_right, file.num_refused, differences);
    tests += file.num_tests();
    right += file.num_right;
    refused += file.num_refused;
    differ += differences;
  }
  return table + Row("all", tests, right, refused, differ);
}

}  // namespace baton::grammar
