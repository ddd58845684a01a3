#include "grammar/testing/grammar_texts.h"

#include <utility>

#include "common/check.h"
#include "grammar/parse_states.h"

namespace baton::grammar {

std::shared_ptr<const Grammar> Compiled(GrammarKind kind, std::string_view text) {
  auto grammar = CompileGrammar({kind, std::string(text)});
  BATON_CHECK(grammar.ok()) << text << ": " << grammar.status();
  return *std::move(grammar);
}

Verdict Judge(const Grammar& grammar, std::string_view text) {
  // The states only read the grammar, which outlives them.
  ParseStates states(std::shared_ptr<const Grammar>(&grammar, [](const Grammar*) {}));
  int32_t configuration = states.start();
  for (const char byte : text) {
    configuration = states.Step(configuration, static_cast<uint8_t>(byte));
    if (configuration == ParseStates::kDead) return Verdict::kRefused;
  }
  return states.is_complete(configuration) ? Verdict::kComplete : Verdict::kUnfinished;
}

std::shared_ptr<const Vocabulary> ByteVocabulary() {
  std::vector<std::string> bytes(kByteVocabularyEos + 1);
  for (int byte = 0; byte < 256; ++byte) bytes[byte] = std::string(1, static_cast<char>(byte));
  return Vocabulary::Create(std::move(bytes), {kByteVocabularyEos});
}

std::shared_ptr<const Vocabulary> PieceVocabulary() {
  std::vector<std::string> bytes;
  bytes.reserve(512);
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* piece :
       {"{\"",      "\":",    "\": ",  "\", \"", "\",",  "\"}",    "\"]",   "\"",     "}}",
        "]}",       "],",     "[]",    "{}",     "[{",   "tru",    "true",  "false",  "null",
        "ll",       "12",     "123",   "0.",     ".5",   "e+",     "-1",    "name",   "na",
        "am",       "me\": ", "\\u00", "\\n",    "\\\"", "ü",      "\xC3",  "\xBC\"", "日本",
        "\xE6\x97", ", ",     ",  ",   "  ",     "\n",   "{",      "2024-", "-02-29", "abc",
        "ab",       "a\"",    "\":\"", "\": [",  "item", "item\"", "1,",    "1, 2",   "\xF0\x9F\x98\x80",
        "\xF0\x9F", "kind",   "x"}) {
    bytes.emplace_back(piece);
  }
  bytes.emplace_back();  // A control token.
  const auto first_eos = static_cast<int32_t>(bytes.size());
  bytes.emplace_back("<end>");
  bytes.emplace_back("{");
  return Vocabulary::Create(std::move(bytes), {first_eos, first_eos + 1});
}

std::vector<int32_t> LegalTokens(TokenMask mask) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < mask.words.size() * 64; ++i) {
    if ((mask.words[i / 64] >> (i % 64) & 1) != 0) tokens.push_back(static_cast<int32_t>(i));
  }
  return tokens;
}

Walk WalkByChance(const std::shared_ptr<TokenMasks>& masks, RandomSource& random, int max_tokens) {
  const Vocabulary& vocabulary = masks->vocabulary();
  GrammarMatcher matcher(masks);
  Walk walk;
  while (static_cast<int>(walk.tokens.size()) < max_tokens) {
    std::vector<int32_t> ends;
    std::vector<int32_t> others;
    for (const int32_t token : LegalTokens(matcher.mask())) {
      (vocabulary.is_eos(token) ? ends : others).push_back(token);
    }
    BATON_CHECK(!ends.empty() || !others.empty()) << "an empty mask after " << walk.text;
    const bool takes_end = others.empty() || (!ends.empty() && random.Below(4) == 0);
    const std::vector<int32_t>& from = takes_end ? ends : others;
    const int32_t token = from[random.Below(from.size())];
    BATON_CHECK(matcher.Accept(token)) << "a legal token is refused after " << walk.text;
    walk.tokens.push_back(token);
    walk.text += vocabulary.bytes(token);
    walk.has_ended = takes_end;
    if (takes_end) break;
  }
  return walk;
}

}  // namespace baton::grammar
