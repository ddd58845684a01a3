// fp32 against Hugging Face transformers in float32, on the same GGUF (scripts/oracles/greedy_oracle.py).
//
// The reference tokens are fed, and the largest logit must be the reference's next token wherever its two best are at
// least `tie_gap` apart. Up to the first closer pair this is the same as comparing greedy output.
#include <algorithm>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/oracle/model_session.h"

namespace baton::tests {
namespace {

constexpr int32_t kMaxTokens = 2048;
// Each model has at least this many recorded prompts.
constexpr size_t kMinCases = 20;

class Greedy : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, Greedy, RecordedModels(), ModelTestName);

TEST_P(Greedy, Fp32AgreesWithTransformersOnEveryClearChoice) {
  auto session = ModelSession::Open(GetParam(), {.numerics = engine::Numerics::kFp32}, kMaxTokens);
  ASSERT_TRUE(session.ok()) << session.status();
  const nlohmann::json oracle = ReadOracle("greedy", GetParam());
  ASSERT_GE(oracle["cases"].size(), kMinCases);
  const double tie_gap = oracle["tie_gap"];
  int compared = 0;
  int ties = 0;
  for (const nlohmann::json& test_case : oracle["cases"]) {
    const std::vector<int32_t> prompt = test_case["ids"];
    const std::vector<int32_t> expected = test_case["tokens"];
    const std::vector<double> gaps = test_case["gaps"];
    std::vector<int32_t> tokens = prompt;
    tokens.insert(tokens.end(), expected.begin(), expected.end() - 1);
    (*session)->Run(tokens, prompt.size() - 1, [&](size_t position, absl::Span<const float> logits) {
      const size_t index = position + 1 - prompt.size();
      if (gaps[index] < tie_gap) {
        ++ties;
        return;
      }
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      EXPECT_EQ(best, expected[index]) << test_case["name"] << ", output " << index << ", gap " << gaps[index];
      ++compared;
    });
  }
  std::printf("%zu prompts: %d positions equal transformers, %d too close to call\n", oracle["cases"].size(), compared,
              ties);
}

}  // namespace
}  // namespace baton::tests
