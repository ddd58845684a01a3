// Compiles arbitrary sources, the first byte of which says of what kind they are, and follows legal tokens. A mask must
// never be empty, what it allows must be accepted, and a cache without room must give the same masks.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "common/check.h"
#include "common/random.h"
#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"
#include "grammar/testing/grammar_texts.h"

namespace {

namespace gr = baton::grammar;

constexpr int kMaxSteps = 24;

void Follow(const std::shared_ptr<const gr::Grammar>& grammar, const std::shared_ptr<const gr::Vocabulary>& vocabulary,
            baton::RandomSource& random) {
  gr::GrammarMatcher matcher(std::make_shared<gr::TokenMasks>(grammar, vocabulary));
  gr::GrammarMatcher without_cache(std::make_shared<gr::TokenMasks>(grammar, vocabulary, 1));
  for (int i = 0; i < kMaxSteps; ++i) {
    const gr::TokenMask mask = matcher.mask();
    const std::vector<int32_t> legal = gr::LegalTokens(mask);
    BATON_CHECK(!legal.empty());
    BATON_CHECK(mask.only == (legal.size() == 1 ? legal[0] : -1));
    BATON_CHECK(gr::LegalTokens(without_cache.mask()) == legal);
    const int32_t token = legal[random.Below(legal.size())];
    BATON_CHECK(matcher.Accept(token) && without_cache.Accept(token));
    const int32_t other = static_cast<int32_t>(random.Below(vocabulary->size()));
    gr::GrammarMatcher copy = matcher;
    const std::vector<int32_t> next = gr::LegalTokens(matcher.mask());
    BATON_CHECK(copy.Accept(other) == std::binary_search(next.begin(), next.end(), other));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static const auto* const kBytes = new std::shared_ptr<const gr::Vocabulary>(gr::ByteVocabulary());
  static const auto* const kPieces = new std::shared_ptr<const gr::Vocabulary>(gr::PieceVocabulary());
  if (bytes == 0) return 0;
  // The digits '1' to '5' in the corpus are the kinds.
  const auto kind = static_cast<baton::GrammarKind>((data[0] - '0') % 6);
  const auto grammar = gr::CompileGrammar({kind, std::string(reinterpret_cast<const char*>(data) + 1, bytes - 1)});
  if (!grammar.ok()) return 0;
  baton::SeededRandom random(bytes);
  Follow(*grammar, *kBytes, random);
  Follow(*grammar, *kPieces, random);
  return 0;
}
