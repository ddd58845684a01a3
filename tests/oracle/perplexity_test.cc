// Perplexity on ordinary English prose: fp32 equals transformers, exact stays within 1 % of fp32, and with int8 KV
// within 1 % of itself.
#include <cmath>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/oracle/model_session.h"

namespace baton::tests {
namespace {

constexpr int32_t kMinTokens = 4000;
constexpr double kModeTolerance = 0.01;
// The reference's figures are rounded to this.
constexpr double kReferenceTolerance = 0.0005;

struct Text {
  std::vector<int32_t> start;  // Ids with which every window begins.
  std::vector<int32_t> ids;
  size_t window = 0;
};

// Counts as scripts/oracles/perplexity_oracle.py does: each window by itself, scored from its second token.
double Perplexity(ModelSession& session, const Text& text) {
  double total = 0;
  int scored = 0;
  const size_t step = text.window - text.start.size();
  for (size_t begin = 0; begin < text.ids.size(); begin += step) {
    std::vector<int32_t> tokens = text.start;
    const auto part = absl::MakeConstSpan(text.ids).subspan(begin, step);
    tokens.insert(tokens.end(), part.begin(), part.end());
    session.Run(tokens, 0, [&](size_t position, absl::Span<const float> logits) {
      if (position + 1 == tokens.size()) return;
      total += NegativeLogLikelihood(logits, tokens[position + 1]);
      ++scored;
    });
  }
  return std::exp(total / scored);
}

double MeasurePerplexity(const char* model, const engine::CpuModelOptions& options, const Text& text) {
  auto session = ModelSession::Open(model, options, static_cast<int32_t>(text.window));
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? Perplexity(**session, text) : 0;
}

class ModelPerplexity : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, ModelPerplexity, RecordedModels(), ModelTestName);

TEST_P(ModelPerplexity, ExactIsWithinOnePercentOfFp32WhichEqualsTransformersAndOfItselfWithInt8Kv) {
  const nlohmann::json oracle = ReadOracle("prose", GetParam());
  const Text text{.start = oracle["start"], .ids = oracle["ids"], .window = oracle["window"]};
  ASSERT_GE(static_cast<int32_t>(text.ids.size()), kMinTokens);
  const double reference = MeasurePerplexity(GetParam(), {.numerics = engine::Numerics::kFp32}, text);
  const double measured = MeasurePerplexity(GetParam(), {}, text);
  const double int8_kv = MeasurePerplexity(GetParam(), {.kv_dtype = KvDtype::kInt8}, text);

  std::printf("%zu tokens: transformers %.5f, fp32 %.5f, exact %.5f (%+.3f %%), int8 KV %.5f (%+.3f %%)\n",
              text.ids.size(), oracle["perplexity"].get<double>(), reference, measured,
              100 * (measured / reference - 1), int8_kv, 100 * (int8_kv / measured - 1));
  EXPECT_NEAR(reference / oracle["perplexity"].get<double>(), 1, kReferenceTolerance);
  EXPECT_NEAR(measured / reference, 1, kModeTolerance);
  EXPECT_NEAR(int8_kv / measured, 1, kModeTolerance);
}

}  // namespace
}  // namespace baton::tests
