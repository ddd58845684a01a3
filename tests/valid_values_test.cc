// Values that satisfy a schema can be written with the tokens of real vocabularies: masks are not too narrow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/random.h"
#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"
#include "grammar/testing/random_schema.h"
#include "grammar/testing/valid_value.h"
#include "grammar/vocabulary.h"
#include "modelfile/model_file.h"
#include "nlohmann/json.hpp"
#include "tokenizer/tokenizer.h"

namespace baton::grammar {
namespace {

constexpr int kSchemas = 300;
constexpr int kValues = 100;
// So many of the schemas that are drawn may be refused or have no value; the usual number is far lower.
constexpr int kMostSkipped = kSchemas / 5;

uint64_t Seed() {
  uint64_t seed = 22;
  if (const char* text = std::getenv("BATON_SCHEMA_SEED"); text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &seed)) << text;
  }
  return seed;
}

// What a worker and a router have of a model for grammars.
struct Model {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::shared_ptr<const Vocabulary> vocabulary;
};

Model OpenModel(const char* name) {
  const auto path = modelfile::ResolveModel(name);
  EXPECT_TRUE(path.ok()) << path.status();
  const auto file = modelfile::OpenModelFile(path.value_or(""));
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  auto texts = tokenizer::TokenTexts((*file)->tokenizer());
  auto tokenizer = tokenizer::Tokenizer::Create((*file)->tokenizer());
  EXPECT_TRUE(texts.ok() && tokenizer.ok()) << texts.status() << tokenizer.status();
  if (!texts.ok() || !tokenizer.ok()) return {};
  return {*std::move(tokenizer), Vocabulary::Create(*std::move(texts), (*file)->tokenizer().eos_ids)};
}

bool IsLegal(TokenMask mask, int32_t token) { return (mask.words[token / 64] >> (token % 64) & 1) != 0; }

// Writes a text token by token. What the masks do not allow, in words, or nothing.
std::string Refusal(const Model& model, const std::shared_ptr<TokenMasks>& masks, const std::string& text) {
  const auto ids = model.tokenizer->Encode(text, {.add_bos = false, .parse_special = false});
  if (!ids.ok()) return std::string(ids.status().message());
  GrammarMatcher matcher(masks);
  std::string written;
  for (const int32_t id : *ids) {
    const std::string token(model.vocabulary->bytes(id));
    if (!IsLegal(matcher.mask(), id)) return "the mask refuses '" + token + "' after " + written;
    if (!matcher.Accept(id)) return "'" + token + "' is not accepted after " + written;
    written += token;
  }
  if (written != text) return "the tokens write " + written;
  for (const int32_t eos : model.vocabulary->eos_ids()) {
    if (!IsLegal(matcher.mask(), eos)) return "the output may not end";
  }
  return matcher.is_complete() ? "" : "the output is not complete";
}

// None where fewer were found.
std::vector<nlohmann::json> ValidValues(RandomSource& random, const nlohmann::json& schema) {
  std::vector<nlohmann::json> values;
  while (values.size() < kValues) {
    std::optional<nlohmann::json> value = ValidValue(random, schema);
    if (!value.has_value()) return {};
    values.push_back(*std::move(value));
  }
  return values;
}

class ValidValuesTest : public testing::TestWithParam<const char*> {};

TEST_P(ValidValuesTest, AreWrittenByTokensThatTheMasksAllow) {
  const Model model = OpenModel(GetParam());
  ASSERT_NE(model.vocabulary, nullptr);
  const uint64_t seed = Seed();
  SeededRandom random(seed);
  int schemas = 0;
  int skipped = 0;
  size_t distinct = 0;
  while (schemas < kSchemas) {
    ASSERT_LE(skipped, kMostSkipped) << "seed " << seed;
    const nlohmann::json schema = RandomRootSchema(random);
    const auto grammar = CompileGrammar({GrammarKind::kJsonSchema, schema.dump()});
    const std::vector<nlohmann::json> values = ValidValues(random, schema);
    // A schema that nothing satisfies is refused just as one with a keyword that is not built.
    if (values.empty() || absl::IsUnimplemented(grammar.status())) {
      ++skipped;
      continue;
    }
    ASSERT_TRUE(grammar.ok()) << "seed " << seed << ", " << grammar.status() << "\n" << schema << "\n" << values[0];
    ++schemas;
    const auto masks = std::make_shared<TokenMasks>(*grammar, model.vocabulary);
    std::set<std::string> texts;
    for (const nlohmann::json& value : values) {
      const std::string text = SpellValue(random, value);
      ASSERT_EQ(Refusal(model, masks, text), "") << "seed " << seed << "\n" << schema << "\n" << text;
      texts.insert(text);
    }
    distinct += texts.size();
  }
  std::printf("%s, seed %llu: %d schemas, %d values each, %zu different; %d schemas skipped\n", GetParam(),
              static_cast<unsigned long long>(seed), kSchemas, kValues, distinct, skipped);
  // A constant has one value.
  EXPECT_GT(distinct, size_t{kSchemas} * kValues / 3);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, ValidValuesTest, testing::Values("smollm2-135m-instruct", "gemma-3-270m"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace baton::grammar
