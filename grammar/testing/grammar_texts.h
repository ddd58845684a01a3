// What a grammar says of whole texts, and vocabularies to test with.
#ifndef BATON_GRAMMAR_TESTING_GRAMMAR_TEXTS_H_
#define BATON_GRAMMAR_TESTING_GRAMMAR_TEXTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/random.h"
#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"

namespace baton::grammar {

// Aborts when the source does not compile.
std::shared_ptr<const Grammar> Compiled(GrammarKind kind, std::string_view text = "");

enum class Verdict : uint8_t { kRefused, kUnfinished, kComplete };
// What becomes of a text, byte by byte.
Verdict Judge(const Grammar& grammar, std::string_view text);
inline bool Allows(const Grammar& grammar, std::string_view text) { return Judge(grammar, text) == Verdict::kComplete; }

// Every byte is a token whose id is the byte; 256 ends the output.
inline constexpr int32_t kByteVocabularyEos = 256;
std::shared_ptr<const Vocabulary> ByteVocabulary();
// Every byte, pieces of JSON of several bytes, some of them twice, a control token, and two tokens that end the output.
std::shared_ptr<const Vocabulary> PieceVocabulary();

std::vector<int32_t> LegalTokens(TokenMask mask);

// Follows legal tokens by chance until the output ends or has `max_tokens` tokens; those that end it are taken
// where they are legal once in four times. Gives the text, and whether it ended.
struct Walk {
  std::string text;
  std::vector<int32_t> tokens;
  bool has_ended = false;
};
Walk WalkByChance(const std::shared_ptr<TokenMasks>& masks, RandomSource& random, int max_tokens);

}  // namespace baton::grammar

#endif  // BATON_GRAMMAR_TESTING_GRAMMAR_TEXTS_H_
