// Perplexity on ordinary English prose: fp32 equals transformers, exact stays within 1 % of fp32.
#include <cmath>
#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/oracle/model_session.h"

namespace baton::tests {
namespace {

constexpr int32_t kMinTokens = 4000;
constexpr double kModeTolerance = 0.01;
// Rounding of the reference's own figures.
constexpr double kReferenceTolerance = 0.0005;

// As scripts/oracles/perplexity_oracle.py counts it: windows by themselves, each scored from its second token.
double Perplexity(ModelSession& session, const std::vector<int32_t>& ids, size_t window) {
  double total = 0;
  int scored = 0;
  for (size_t begin = 0; begin < ids.size(); begin += window) {
    const auto tokens = absl::MakeConstSpan(ids).subspan(begin, window);
    session.Run(tokens, [&](size_t position, absl::Span<const float> logits) {
      if (position + 1 == tokens.size()) return;
      total += NegativeLogLikelihood(logits, tokens[position + 1]);
      ++scored;
    });
  }
  return std::exp(total / scored);
}

TEST(Perplexity, ExactIsWithinOnePercentOfFp32WhichEqualsTransformers) {
  std::ifstream file(BATON_SOURCE_DIR "/tests/data/prose/oracle.json");
  const nlohmann::json oracle = nlohmann::json::parse(file);
  const std::vector<int32_t> ids = oracle["ids"];
  const size_t window = oracle["window"];
  ASSERT_GE(static_cast<int32_t>(ids.size()), kMinTokens);

  auto fp32 = ModelSession::Open(engine::Numerics::kFp32, static_cast<int32_t>(window));
  ASSERT_TRUE(fp32.ok()) << fp32.status();
  const double reference = Perplexity(**fp32, ids, window);
  auto exact = ModelSession::Open(engine::Numerics::kExact, static_cast<int32_t>(window));
  ASSERT_TRUE(exact.ok()) << exact.status();
  const double measured = Perplexity(**exact, ids, window);

  std::printf("%zu tokens: transformers %.5f, fp32 %.5f, exact %.5f (%+.3f %%)\n", ids.size(),
              oracle["perplexity"].get<double>(), reference, measured, 100 * (measured / reference - 1));
  EXPECT_NEAR(reference / oracle["perplexity"].get<double>(), 1, kReferenceTolerance);
  EXPECT_NEAR(measured / reference, 1, kModeTolerance);
}

}  // namespace
}  // namespace baton::tests
