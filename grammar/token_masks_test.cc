#include <gtest/gtest.h>

#include "grammar/testing/grammar_texts.h"
#include "nlohmann/json.hpp"

namespace baton::grammar {
namespace {

TEST(Walks, EndInValidJson) {
  SeededRandom random(1);
  for (const auto& vocabulary : {ByteVocabulary(), PieceVocabulary()}) {
    const auto masks = std::make_shared<TokenMasks>(Compiled(GrammarKind::kJsonObject), vocabulary);
    for (int i = 0; i < 50; ++i) {
      const Walk walk = WalkByChance(masks, random, 2000);
      if (!walk.has_ended) continue;
      EXPECT_TRUE(nlohmann::json::accept(walk.text)) << walk.text;
    }
  }
}

}  // namespace
}  // namespace baton::grammar
