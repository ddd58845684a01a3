#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/random.h"
#include "grammar/grammar.h"
#include "grammar/testing/grammar_texts.h"
#include "grammar/testing/random_schema.h"
#include "grammar/testing/schema_validator.h"
#include "nlohmann/json.hpp"

namespace baton::grammar {
namespace {

using nlohmann::json;

constexpr int kSchemas = 400;

// The grammar is null where no value satisfies the schema.
struct Sample {
  json schema;
  std::shared_ptr<const Grammar> grammar;
  bool is_supported = true;
};

Sample RandomSample(RandomSource& random) {
  Sample sample;
  sample.schema = RandomRootSchema(random);
  auto grammar = CompileGrammar({GrammarKind::kJsonSchema, sample.schema.dump()});
  if (grammar.ok()) sample.grammar = *std::move(grammar);
  sample.is_supported = grammar.status().code() != absl::StatusCode::kUnimplemented;
  EXPECT_NE(grammar.status().code(), absl::StatusCode::kResourceExhausted) << grammar.status() << "\n" << sample.schema;
  return sample;
}

TEST(RandomSchemas, AllowAValueWhereItSatisfiesThem) {
  SeededRandom random(11);
  int valid = 0;
  int invalid = 0;
  int supported = 0;
  for (int i = 0; i < kSchemas; ++i) {
    const Sample sample = RandomSample(random);
    // An object in an enum beside properties, by chance.
    supported += sample.is_supported ? 1 : 0;
    if (!sample.is_supported) continue;
    for (int j = 0; j < 30; ++j) {
      const json value = RandomValue(random, sample.schema, sample.schema, 5);
      const bool satisfies = Satisfies(value, sample.schema, sample.schema);
      (satisfies ? valid : invalid)++;
      const std::string text = SpellValue(random, value);
      const bool allows = sample.grammar != nullptr && Allows(*sample.grammar, text);
      ASSERT_EQ(allows, satisfies) << sample.schema << "\n" << text;
    }
  }
  EXPECT_GT(valid, 2000);
  EXPECT_GT(invalid, 2000);
  EXPECT_GT(supported, kSchemas * 98 / 100);
}

TEST(RandomSchemas, AreSatisfiedWhereverLegalTokensLead) {
  SeededRandom random(12);
  int ended = 0;
  for (int i = 0; i < kSchemas; ++i) {
    const Sample sample = RandomSample(random);
    if (sample.grammar == nullptr) continue;
    for (const auto& vocabulary : {ByteVocabulary(), PieceVocabulary()}) {
      const auto masks = std::make_shared<TokenMasks>(sample.grammar, vocabulary);
      const Walk walk = WalkByChance(masks, random, 1500);
      if (!walk.has_ended) continue;
      ++ended;
      const json value = json::parse(walk.text, nullptr, /*allow_exceptions=*/false);
      ASSERT_FALSE(value.is_discarded()) << walk.text;
      ASSERT_TRUE(Satisfies(value, sample.schema, sample.schema)) << sample.schema << "\n" << walk.text;
    }
  }
  EXPECT_GT(ended, kSchemas);
}

}  // namespace
}  // namespace baton::grammar
