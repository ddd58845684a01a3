// The runner of test suites, by cases of our own in the same format, and the suite of json-schema.org where
// BATON_JSON_SCHEMA_SUITE names the folder of its draft 2020-12 (scripts/fetch_schema_suite.sh).
#include "grammar/testing/schema_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "grammar/testing/any_order.h"
#include "grammar/testing/grammar_texts.h"

namespace baton::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char kOwnSuite[] = BATON_SOURCE_DIR "/grammar/testing/suite";
const char kPage[] = BATON_SOURCE_DIR "/docs/structured_output.md";

TEST(SchemaSuite, CountsWhatIsRightRefusedAndDifferent) {
  const auto files = RunSchemaSuite(kOwnSuite);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(SuiteTable(*files),
            "| file | tests | right | refused by name | differ |\n|---|---|---|---|---|\n"
            "| `members` | 6 | 6 | 0 | 0 |\n"
            "| `numbers` | 6 | 4 | 2 | 0 |\n"
            "| `optional/wrong` | 5 | 1 | 0 | 4 |\n"
            "| all | 17 | 11 | 2 | 4 |\n");
  EXPECT_THAT((*files)[0].differences, IsEmpty());
  EXPECT_THAT((*files)[2].differences,
              ElementsAre("optional/wrong: claims that are wrong on purpose: a long text: is valid, but not allowed",
                          "optional/wrong: claims that are wrong on purpose: a short text: is allowed",
                          HasSubstr("no output satisfies"), HasSubstr("type must name types")));
}

TEST(SchemaSuite, SaysWhichFileIsNotOne) {
  EXPECT_TRUE(absl::IsNotFound(RunSchemaSuite(std::string(kOwnSuite) + "/nowhere").status()));
  const std::string folder = testing::TempDir() + "/baton_schema_suite";
  std::filesystem::create_directories(folder);
  for (const char* text : {"{}", "[{}]", R"([{"schema": {}, "tests": [{"data": 1}]}])", "["}) {
    std::ofstream(folder + "/broken.json") << text;
    const absl::Status status = RunSchemaSuite(folder).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("broken")) << text;
  }
  std::filesystem::remove_all(folder);
}

TEST(AnyOrder, FindsTheOneThatIsAllowed) {
  const auto grammar = Compiled(GrammarKind::kJsonSchema,
                                R"({"type": "object", "properties": {"c": {"type": "integer"}, "b": {}, "a": {}}})");
  const auto allows = [&grammar](const char* text) {
    return AllowsInAnyOrder(*grammar, *ParseJson(text, "the value"));
  };
  EXPECT_TRUE(allows(R"({"a": {"y": 1, "x": [{}]}, "z": 1, "b": 2, "c": 3})"));
  EXPECT_FALSE(allows(R"({"a": 1, "z": 1, "b": 2, "c": "3"})"));
  EXPECT_TRUE(allows("{}"));
  EXPECT_FALSE(allows("[]"));
}

TEST(SchemaSuite, OfJsonSchemaOrgIsAsThePageSays) {
  const char* folder = std::getenv("BATON_JSON_SCHEMA_SUITE");
  if (folder == nullptr) GTEST_SKIP() << "BATON_JSON_SCHEMA_SUITE does not name the suite of json-schema.org";
  const auto files = RunSchemaSuite(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  for (const SuiteFile& file : *files) {
    for (const std::string& difference : file.differences) std::printf("%s\n", difference.c_str());
  }
  const std::string table = SuiteTable(*files);
  std::printf("%s", table.c_str());
  std::ifstream stream(kPage);
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_NE(page.find(table), std::string::npos) << "docs/structured_output.md has another table";
}

}  // namespace
}  // namespace baton::grammar
