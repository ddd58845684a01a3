// What quantizing a float checkpoint at load costs, on a real model: SmolLM2 made float again.
#include <cmath>
#include <cstdio>

#include "engine/testing/retyped_model.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/oracle/model_session.h"

namespace baton::tests {
namespace {

constexpr char kModel[] = "smollm2-135m-instruct";
constexpr int32_t kTokens = 4096;

double Perplexity(const modelfile::ModelFile& file, engine::CpuModelOptions options, absl::Span<const int32_t> tokens) {
  auto session = ModelSession::Load(file, options, kTokens);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return 0;
  double total = 0;
  (*session)->Run(tokens, 0, [&](size_t position, absl::Span<const float> logits) {
    if (position + 1 < tokens.size()) total += NegativeLogLikelihood(logits, tokens[position + 1]);
  });
  return std::exp(total / static_cast<double>(tokens.size() - 1));
}

// The layers had 4 bits before they became floats, so int4 has nothing left to lose in them. A model of real floats
// loses more (docs/models.md).
TEST(QuantizedAtLoad, KeepsThePerplexityOfTheModel) {
  const auto path = modelfile::ResolveModel(kModel);
  ASSERT_TRUE(path.ok()) << path.status();
  const auto file = modelfile::OpenModelFile(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto checkpoint = engine::MakeRetypedModel(**file, [](const auto&) { return modelfile::TensorType::kF32; });
  const std::vector<int32_t> ids = ReadOracle("prose", kModel)["ids"];
  const auto tokens = absl::MakeConstSpan(ids).first(kTokens);

  const double reference = Perplexity(**file, {}, tokens);
  const double int8 = Perplexity(*checkpoint, {.weights = engine::Weights::kInt8}, tokens);
  const double int4 = Perplexity(*checkpoint, {.weights = engine::Weights::kInt4}, tokens);
  std::printf("%d tokens: the file %.4f, int8 %.4f (%+.2f %%), int4 %.4f (%+.2f %%)\n", kTokens, reference, int8,
              100 * (int8 / reference - 1), int4, 100 * (int4 / reference - 1));
  EXPECT_NEAR(int8 / reference, 1, 0.01);
  EXPECT_NEAR(int4 / reference, 1, 0.01);
}

}  // namespace
}  // namespace baton::tests
