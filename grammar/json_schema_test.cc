#include <gtest/gtest.h>

#include "grammar/testing/grammar_texts.h"

namespace baton::grammar {
namespace {

TEST(JsonObject, IsAnyObject) {
  const auto grammar = Compiled(GrammarKind::kJsonObject);
  EXPECT_TRUE(Allows(*grammar, R"({"a": [1,2.5e3,{"b":null}], "c":"x\n\u00e9é"})"));
  EXPECT_FALSE(Allows(*grammar, "[]"));
}

}  // namespace
}  // namespace baton::grammar
