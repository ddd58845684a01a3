// `exact` on the real models: the same bits on every instruction set that this machine runs.
#include <cstring>

#include "gtest/gtest.h"
#include "tests/oracle/model_session.h"

namespace baton::tests {
namespace {

// Few tokens, because the scalar definition is slow, but more than one tile of activations and no whole number of them.
constexpr int32_t kTokens = 37;

std::vector<float> LastLogits(const char* model, engine::Isa isa, absl::Span<const int32_t> tokens) {
  auto session = ModelSession::Open(model, {.isa = isa}, kTokens);
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<float> last;
  if (!session.ok()) return last;
  (*session)->Run(tokens, tokens.size() - 1,
                  [&](size_t, absl::Span<const float> logits) { last.assign(logits.begin(), logits.end()); });
  return last;
}

class EveryIsa : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, EveryIsa, RecordedModels(), ModelTestName);

TEST_P(EveryIsa, GivesTheBitsOfTheDefinition) {
  const std::vector<int32_t> ids = ReadOracle("prose", GetParam())["ids"];
  const auto tokens = absl::MakeConstSpan(ids).first(kTokens);
  const std::vector<float> want = LastLogits(GetParam(), engine::Isa::kScalar, tokens);
  ASSERT_FALSE(want.empty());
  for (const engine::Isa isa : engine::SupportedIsas()) {
    const std::vector<float> got = LastLogits(GetParam(), isa, tokens);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << engine::IsaName(isa);
  }
}

}  // namespace
}  // namespace baton::tests
