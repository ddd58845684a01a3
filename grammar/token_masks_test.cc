#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "grammar/grammar_matcher.h"
#include "grammar/testing/grammar_texts.h"
#include "nlohmann/json.hpp"

namespace baton::grammar {
namespace {

using Vocabularies = std::vector<std::shared_ptr<const Vocabulary>>;

// Grammars with strings in several places, recursion, ambiguity, and ends that may go on.
std::vector<std::shared_ptr<const Grammar>> SomeGrammars() {
  return {
      Compiled(GrammarKind::kJsonObject),
      Compiled(GrammarKind::kJsonSchema, R"({"type": "object", "properties": {"name": {"type": "string"},
               "item": {"type": "array", "items": {"$ref": "#"}}, "kind": {"type": "string", "maxLength": 3}},
               "required": ["kind"]})"),
      Compiled(GrammarKind::kJsonSchema, R"({"type": "number", "minimum": -3.5})"),
      Compiled(GrammarKind::kRegex, "(?:[a-zé]+[0-9]{2,3} ?)*"),
      Compiled(GrammarKind::kChoice, R"(["true", "truncate", "name", "na", "日本"])"),
      Compiled(GrammarKind::kEbnf,
               "root ::= a | b\na ::= \"[\" a \"]\" | \"x\" a | \"]\"?\nb ::= \"[\" b \"]\" b | \"x\"*"),
  };
}

// By trying each token.
std::vector<int32_t> LegalByTrial(const GrammarMatcher& matcher, const Vocabulary& vocabulary) {
  std::vector<int32_t> legal;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    GrammarMatcher copy = matcher;
    if (copy.Accept(token)) legal.push_back(token);
  }
  return legal;
}

GrammarMatcher MatcherOf(const std::shared_ptr<const Grammar>& grammar,
                         const std::shared_ptr<const Vocabulary>& vocabulary, size_t max_bytes = kMaxMaskCacheBytes) {
  return GrammarMatcher(std::make_shared<TokenMasks>(grammar, vocabulary, max_bytes));
}

TEST(TokenMasks, HaveExactlyTheTokensThatAreAccepted) {
  SeededRandom random(3);
  for (const auto& grammar : SomeGrammars()) {
    for (const auto& vocabulary : Vocabularies{ByteVocabulary(), PieceVocabulary()}) {
      const auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
      for (int i = 0; i < 5; ++i) {
        const Walk walk = WalkByChance(masks, random, 40);
        GrammarMatcher matcher(masks);
        for (const int32_t token : walk.tokens) {
          ASSERT_EQ(LegalTokens(matcher.mask()), LegalByTrial(matcher, *vocabulary)) << walk.text;
          ASSERT_TRUE(matcher.Accept(token));
        }
      }
    }
  }
}

// All bytes, and pieces of up to 30 bytes of what strings consist of, with what may follow them.
std::shared_ptr<const Vocabulary> LongVocabulary(RandomSource& random) {
  const std::vector<std::string> parts = {"a", "bc", "\\n", "\\u00e9", "é", "日", " ", "\"", "\",", "\":", "\"}", "0"};
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  while (bytes.size() < 900) {
    std::string piece;
    const uint64_t length = 1 + random.Next64() % 30;
    while (piece.size() < length) piece += parts[random.Next64() % parts.size()];
    // Pieces may begin and end in the middle of a character.
    bytes.push_back(piece.substr(random.Next64() % 2, length));
  }
  const auto eos = static_cast<int32_t>(bytes.size());
  bytes.emplace_back("<end>");
  return Vocabulary::Create(std::move(bytes), {eos});
}

TEST(TokenMasks, AreExactWhereOneIsDerivedFromAnother) {
  SeededRandom random(8);
  const auto vocabulary = LongVocabulary(random);
  for (const auto& grammar :
       {Compiled(GrammarKind::kJsonSchema, R"({"type": "array", "items": {"type": "object", "properties": {
                     "name": {"type": "string", "maxLength": 40}, "text": {"type": "string", "minLength": 20}},
                     "required": ["name", "text"]}})"),
        Compiled(GrammarKind::kJsonSchema, R"({"type": "string", "minLength": 5, "maxLength": 60})"),
        Compiled(GrammarKind::kRegex, "(?:.|\\n){50,}"), Compiled(GrammarKind::kRegex, "[a-zé日]{3,70} ?[0-9\"]*")}) {
    const auto masks = std::make_shared<TokenMasks>(grammar, vocabulary);
    const auto tiny = std::make_shared<TokenMasks>(grammar, vocabulary, 20'000);
    for (int i = 0; i < 6; ++i) {
      const Walk walk = WalkByChance(masks, random, 60);
      GrammarMatcher matcher(masks);
      GrammarMatcher in_tiny(tiny);
      for (const int32_t token : walk.tokens) {
        const std::vector<int32_t> legal = LegalTokens(matcher.mask());
        ASSERT_EQ(legal, LegalByTrial(matcher, *vocabulary)) << walk.text;
        ASSERT_EQ(legal, LegalTokens(in_tiny.mask())) << walk.text;
        ASSERT_TRUE(matcher.Accept(token) && in_tiny.Accept(token));
      }
    }
    EXPECT_GT(masks->num_shortened(), 0);
    EXPECT_GT(tiny->num_drops(), 0);
  }
}

TEST(TokenMasks, DependOnTheAcceptedTokensAlone) {
  SeededRandom random(4);
  for (const auto& grammar : SomeGrammars()) {
    for (const auto& vocabulary : Vocabularies{ByteVocabulary(), PieceVocabulary()}) {
      const auto warm = std::make_shared<TokenMasks>(grammar, vocabulary);
      // Has room for next to nothing, so that it is dropped all the time.
      const auto tiny = std::make_shared<TokenMasks>(grammar, vocabulary, 500);
      for (int i = 0; i < 10; ++i) {
        const Walk walk = WalkByChance(warm, random, 60);
        GrammarMatcher in_warm(warm);
        GrammarMatcher in_tiny(tiny);
        GrammarMatcher in_cold = MatcherOf(grammar, vocabulary);
        for (const int32_t token : walk.tokens) {
          const std::vector<int32_t> expected = LegalTokens(in_warm.mask());
          ASSERT_EQ(LegalTokens(in_tiny.mask()), expected) << walk.text;
          ASSERT_EQ(LegalTokens(in_cold.mask()), expected) << walk.text;
          ASSERT_EQ(in_tiny.is_complete(), in_warm.is_complete());
          ASSERT_TRUE(in_warm.Accept(token) && in_tiny.Accept(token) && in_cold.Accept(token));
        }
      }
      EXPECT_GT(tiny->num_drops(), 0);
      EXPECT_EQ(warm->num_drops(), 0);
    }
  }
}

TEST(TokenMasks, SurviveThatTheCacheIsDroppedForAnotherMatcher) {
  const auto masks = std::make_shared<TokenMasks>(Compiled(GrammarKind::kJsonObject), ByteVocabulary(), 20'000);
  SeededRandom random(5);
  GrammarMatcher waiting(masks);
  for (const char byte : std::string_view("{\"a\": [[1, {\"b\": \"x")) ASSERT_TRUE(waiting.Accept(byte));
  const std::vector<int32_t> before = LegalTokens(waiting.mask());
  for (int i = 0; i < 50; ++i) WalkByChance(masks, random, 300);
  EXPECT_GT(masks->num_drops(), 5);
  EXPECT_EQ(LegalTokens(waiting.mask()), before);
  for (const char byte : std::string_view("\"}]], \"c\": null}")) ASSERT_TRUE(waiting.Accept(byte)) << byte;
  EXPECT_TRUE(waiting.is_complete());
}

TEST(TokenMasks, StayWithinTheirBound) {
  constexpr size_t kBound = 100'000;
  const auto masks = std::make_shared<TokenMasks>(SomeGrammars()[1], PieceVocabulary(), kBound);
  SeededRandom random(6);
  size_t largest = 0;
  for (int i = 0; i < 100; ++i) {
    WalkByChance(masks, random, 200);
    largest = std::max(largest, masks->MemoryBytes());
  }
  EXPECT_GT(masks->num_drops(), 0);
  // What one more mask adds.
  EXPECT_LT(largest, kBound + 20'000);
}

TEST(TokenMasks, AreComputedOnceForAllSequences) {
  const auto vocabulary = PieceVocabulary();
  const auto masks = std::make_shared<TokenMasks>(Compiled(GrammarKind::kJsonObject), vocabulary);
  const auto write = [&masks] {
    GrammarMatcher matcher(masks);
    for (const char byte : std::string_view("{\"abcabcabc\": 1}")) {
      matcher.mask();
      ASSERT_TRUE(matcher.Accept(byte));
    }
  };
  write();
  const int64_t computed = masks->num_computed();
  write();
  EXPECT_EQ(masks->num_computed(), computed);
  // All places inside of a key are one.
  EXPECT_LT(computed, 10);
}

TEST(GrammarMatcher, EndsWithAnyEndOfSequenceToken) {
  const auto vocabulary = PieceVocabulary();
  ASSERT_EQ(vocabulary->eos_ids().size(), 2u);
  for (const int32_t eos : vocabulary->eos_ids()) {
    GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "a"), vocabulary);
    EXPECT_FALSE(matcher.Accept(eos));
    ASSERT_TRUE(matcher.Accept('a'));
    EXPECT_TRUE(matcher.is_complete());
    const std::vector<int32_t> ends(vocabulary->eos_ids().begin(), vocabulary->eos_ids().end());
    EXPECT_EQ(LegalTokens(matcher.mask()), ends);
    ASSERT_TRUE(matcher.Accept(eos));
    EXPECT_EQ(LegalTokens(matcher.mask()), ends);
    EXPECT_FALSE(matcher.Accept('a'));
    EXPECT_TRUE(matcher.is_complete());
    EXPECT_TRUE(matcher.Accept(eos));
  }
}

TEST(GrammarMatcher, StaysWhereATokenIsNotLegal) {
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kChoice, R"(["abc", "abx"])"), PieceVocabulary());
  ASSERT_TRUE(matcher.Accept('a'));
  const auto before = LegalTokens(matcher.mask());
  for (const int32_t token : {int32_t{'x'}, int32_t{'"'}, -1, 1 << 20, PieceVocabulary()->size() - 3}) {
    EXPECT_FALSE(matcher.Accept(token)) << token;
    EXPECT_EQ(LegalTokens(matcher.mask()), before);
  }
  ASSERT_TRUE(matcher.Accept('b'));
  EXPECT_EQ(LegalTokens(matcher.mask()), (std::vector<int32_t>{'c', 'x', PieceVocabulary()->size() - 4}));
}

TEST(GrammarMatcher, ATokenThatIsRefusedInItsMiddleLeavesNothingBehind) {
  const auto vocabulary = Vocabulary::Create({"a", "b", "ax", "end"}, {3});
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "ab"), vocabulary);
  EXPECT_FALSE(matcher.Accept(2));
  ASSERT_TRUE(matcher.Accept(0));
  EXPECT_EQ(matcher.mask().only, 1);
}

TEST(GrammarMatcher, NothingFollowsTheEndWhereTheGrammarWouldGoOn) {
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "a+"), ByteVocabulary());
  ASSERT_TRUE(matcher.Accept('a') && matcher.Accept(kByteVocabularyEos));
  EXPECT_FALSE(matcher.Accept('a'));
  EXPECT_EQ(matcher.mask().only, kByteVocabularyEos);
}

TEST(GrammarMatcher, NamesTheOnlyTokenWhereThereIsOne) {
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kChoice, R"(["abc", "abd"])"), ByteVocabulary());
  EXPECT_EQ(matcher.mask().only, 'a');
  ASSERT_TRUE(matcher.Accept('a') && matcher.Accept('b'));
  EXPECT_EQ(matcher.mask().only, -1);
  ASSERT_TRUE(matcher.Accept('d'));
  EXPECT_EQ(matcher.mask().only, kByteVocabularyEos);
}

TEST(GrammarMatcher, ACopyGoesItsOwnWay) {
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kChoice, R"(["ab", "cd"])"), ByteVocabulary());
  GrammarMatcher copy = matcher;
  ASSERT_TRUE(matcher.Accept('a'));
  ASSERT_TRUE(copy.Accept('c'));
  EXPECT_EQ(matcher.mask().only, 'b');
  EXPECT_EQ(copy.mask().only, 'd');
  copy = std::move(matcher);
  EXPECT_EQ(copy.mask().only, 'b');
}

TEST(GrammarMatcher, MayEndWhereTheVocabularyCannotGoOn) {
  // No token writes c.
  const auto vocabulary = Vocabulary::Create({"a", "b", "ab", "end"}, {3});
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "ab(c|bd)"), vocabulary);
  EXPECT_FALSE(matcher.is_stuck());
  EXPECT_EQ(LegalTokens(matcher.mask()), (std::vector<int32_t>{0, 2}));
  EXPECT_FALSE(matcher.Accept(3));
  ASSERT_TRUE(matcher.Accept(2));
  EXPECT_FALSE(matcher.is_stuck());
  ASSERT_TRUE(matcher.Accept(1));
  EXPECT_TRUE(matcher.is_stuck());
  EXPECT_FALSE(matcher.is_complete());
  EXPECT_EQ(matcher.mask().only, 3);
  EXPECT_TRUE(matcher.Accept(3));
}

TEST(GrammarMatcher, AllowsTokensThatAreTheSameBytes) {
  const auto vocabulary = Vocabulary::Create({"a", "b", "a", "", "a", "end"}, {5});
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "a+"), vocabulary);
  EXPECT_EQ(LegalTokens(matcher.mask()), (std::vector<int32_t>{0, 2, 4}));
  ASSERT_TRUE(matcher.Accept(4));
  EXPECT_EQ(LegalTokens(matcher.mask()), (std::vector<int32_t>{0, 2, 4, 5}));
}

TEST(GrammarMatcher, TakesTokensWithHalfCharacters) {
  const auto vocabulary = Vocabulary::Create({"\xE6\x97", "\xA5", "\xE6", "\x97\xA5", "x", "end"}, {5});
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "日"), vocabulary);
  EXPECT_EQ(LegalTokens(matcher.mask()), (std::vector<int32_t>{0, 2}));
  GrammarMatcher other = matcher;
  ASSERT_TRUE(matcher.Accept(0));
  EXPECT_EQ(matcher.mask().only, 1);
  ASSERT_TRUE(other.Accept(2));
  EXPECT_EQ(other.mask().only, 3);
}

TEST(Nesting, ClosesWhatIsOpenAtTheLimit) {
  const auto grammar = Compiled(GrammarKind::kJsonSchema, "{}");
  const auto vocabulary = ByteVocabulary();
  GrammarMatcher matcher = MatcherOf(grammar, vocabulary);
  int depth = 0;
  while (matcher.Accept('[')) ++depth;
  EXPECT_GE(depth, 64);
  EXPECT_LE(depth, kMaxStackDepth + 1);
  for (int i = 0; i < depth; ++i) {
    const std::vector<int32_t> legal = LegalTokens(matcher.mask());
    ASSERT_TRUE(std::count(legal.begin(), legal.end(), ']') == 1) << i;
    ASSERT_TRUE(matcher.Accept(']'));
  }
  EXPECT_TRUE(matcher.is_complete());
}

TEST(Nesting, NeverEndsInAPlaceThatCannotBeClosed) {
  // A list must have its next list, or null, which is deeper than the list itself.
  const auto grammar = Compiled(GrammarKind::kJsonSchema, R"({"$ref": "#/$defs/a", "$defs": {
      "a": {"type": "object", "properties": {"b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/c"}]}},
            "required": ["b"], "additionalProperties": false},
      "c": {"type": "array", "items": {"$ref": "#/$defs/d"}, "minItems": 1, "maxItems": 1}, "d": {"type": "null"}}})");
  const auto masks = std::make_shared<TokenMasks>(grammar, ByteVocabulary());
  GrammarMatcher matcher(masks);
  std::string text;
  // Goes deeper wherever it can.
  for (int i = 0; i < 5000; ++i) {
    const std::vector<int32_t> legal = LegalTokens(matcher.mask());
    ASSERT_FALSE(legal.empty());
    const bool may_open = std::count(legal.begin(), legal.end(), '{') == 1;
    const int32_t token = may_open ? '{' : legal.back();
    if (masks->vocabulary().is_eos(token)) break;
    ASSERT_TRUE(matcher.Accept(token));
    text += masks->vocabulary().bytes(token);
  }
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  EXPECT_GT(std::count(text.begin(), text.end(), '{'), 40);
}

TEST(Vocabulary, SortsTokensIntoATree) {
  const auto vocabulary = Vocabulary::Create({"ab", "", "a", "abc", "b", "ab", "end"}, {6, 6, 99, -1});
  EXPECT_EQ(vocabulary->size(), 7);
  EXPECT_EQ(vocabulary->eos_ids(), (std::vector<int32_t>{6}));
  EXPECT_EQ(vocabulary->bytes(6), "");
  EXPECT_EQ(vocabulary->max_token_bytes(), 3u);
  ASSERT_EQ(vocabulary->nodes().size(), 4u);  // a, ab, abc, b
  EXPECT_EQ(vocabulary->nodes()[0].token, 2);
  EXPECT_EQ(vocabulary->nodes()[0].skip, 3);
  EXPECT_EQ(vocabulary->nodes()[1].token, 0);
  EXPECT_EQ(vocabulary->next_alike(0), 5);
  EXPECT_EQ(vocabulary->next_alike(5), -1);
  EXPECT_EQ(vocabulary->nodes()[2].depth, 3);
  EXPECT_EQ(vocabulary->nodes()[3].skip, 4);
}

TEST(Vocabulary, MayBeEmpty) {
  const auto vocabulary = Vocabulary::Create({}, {});
  GrammarMatcher matcher = MatcherOf(Compiled(GrammarKind::kRegex, "a"), vocabulary);
  EXPECT_TRUE(LegalTokens(matcher.mask()).empty());
  EXPECT_TRUE(matcher.is_stuck());
}

}  // namespace
}  // namespace baton::grammar
