#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/random.h"
#include "engine/philox.h"
#include "gtest/gtest.h"

// Parameters are named one by one here; the rest have their defaults.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace baton::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OutputToken SampleFrom(std::vector<float> logits, const SamplingParams& params, const SamplingContext& context = {}) {
  Sampler sampler(static_cast<int32_t>(logits.size()));
  return sampler.Sample(params, context, absl::MakeSpan(logits));
}

// About normal, with many equal values.
std::vector<float> RandomLogits(size_t count, SeededRandom& random) {
  std::vector<float> logits(count);
  for (float& logit : logits) {
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<int64_t>(random.Below(4096)) - 2048;
    logit = static_cast<float>(sum) * 0x1p-9f;
  }
  return logits;
}

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, DrawIsBelowOneAndUsesTheTop24Bits) {
  EXPECT_EQ(UniformDraw(0, {}), static_cast<float>(0x6627e8d5u >> 8) / 16777216.0f);
  for (uint32_t position = 0; position < 10'000; ++position) EXPECT_LT(UniformDraw(5, {.position = position}), 1.0f);
  EXPECT_NE(UniformDraw(1, {.position = 3}), UniformDraw(1ull << 32, {.position = 3}));
}

TEST(ArgMax, TakesTheSmallestIdOfEqualsAtEveryPosition) {
  for (size_t size : {1, 3, 15, 16, 17, 63, 100}) {
    for (size_t best = 0; best < size; ++best) {
      std::vector<float> logits(size, -1.0f);
      for (size_t i = best; i < size; i += 7) logits[i] = 2.0f;
      EXPECT_EQ(ArgMax(logits), static_cast<int32_t>(best)) << size;
    }
  }
}

TEST(ArgMax, SkipsNanAndSurvivesRowsWithoutANumber) {
  EXPECT_EQ(ArgMax(std::vector<float>{kNan, 1, kNan, 3, kNan}), 3);
  EXPECT_EQ(ArgMax(std::vector<float>(40, kNan)), 0);
  EXPECT_EQ(ArgMax(std::vector<float>(40, -kInfinity)), 0);
  EXPECT_EQ(ArgMax(std::vector<float>{0, kInfinity, kInfinity}), 1);
}

TEST(Sampler, DrawsSurviveNanAndInfinities) {
  const SamplingParams params = {.temperature = 1.0f, .seed = 9};
  EXPECT_EQ(SampleFrom({kNan, kNan}, params).token, 0);
  EXPECT_EQ(SampleFrom({-kInfinity, -kInfinity}, params).token, 0);
  EXPECT_EQ(SampleFrom({0, kInfinity, 1}, params).token, 1);
  std::vector<float> one(50, -kInfinity);
  one[20] = kNan;
  one[33] = -5;
  EXPECT_EQ(SampleFrom(one, params).token, 33);
}

TEST(Sampler, ChiSquareOfDrawsFitsTheDistribution) {
  // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16, none.
  const std::vector<float> logits = {std::log(8.0f), std::log(4.0f), std::log(2.0f), 0, 0, -kInfinity};
  const std::vector<double> probabilities = {0.5, 0.25, 0.125, 0.0625, 0.0625, 0};
  constexpr int kDraws = 40'000;
  std::vector<int> counts(logits.size(), 0);
  std::vector<int32_t> outputs;
  Sampler sampler(static_cast<int32_t>(logits.size()));
  for (int i = 0; i < kDraws; ++i) {
    std::vector<float> row = logits;
    const SamplingParams params = {.temperature = 1.0f, .seed = 1234, .max_tokens = kDraws};
    outputs.push_back(sampler.Sample(params, {.outputs = outputs}, absl::MakeSpan(row)).token);
    ++counts[static_cast<size_t>(outputs.back())];
  }
  double chi_square = 0;
  for (size_t i = 0; i < 5; ++i) {
    const double expected = kDraws * probabilities[i];
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_EQ(counts[5], 0);
  EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom: 1 in 1000
}

TEST(Sampler, DrawsDoNotDependOnFiltersThatKeepEverything) {
  SeededRandom random(11);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> logits = RandomLogits(300, random);
    const SamplingParams plain = {.temperature = 0.8f, .seed = seed};
    SamplingParams all = plain;
    all.top_k = 299;
    all.min_p = 1e-20f;
    EXPECT_EQ(SampleFrom(logits, plain).token, SampleFrom(logits, all).token) << "seed " << seed;
  }
}

TEST(Sampler, TopKOneAndTinyTopPAndMinPOneAreGreedy) {
  SeededRandom random(12);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<float> logits = RandomLogits(200, random);
    logits[seed] = 50;
    const int32_t best = static_cast<int32_t>(seed);
    EXPECT_EQ(SampleFrom(logits, {.temperature = 5.0f, .top_k = 1, .seed = seed}).token, best);
    EXPECT_EQ(SampleFrom(logits, {.temperature = 5.0f, .top_p = 1e-6f, .seed = seed}).token, best);
    EXPECT_EQ(SampleFrom(logits, {.temperature = 5.0f, .min_p = 1.0f, .seed = seed}).token, best);
  }
}

TEST(Sampler, TopPKeepsNoMoreThanItNeeds) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(SampleFrom({-9, 3, 3, -9}, {.temperature = 0.1f, .top_p = 0.5f, .seed = seed}).token, 1);
  }
}

TEST(Sampler, EqualLogitsAreOrderedById) {
  const std::vector<float> logits = {1, 2, 2, 2, -0.0f, 0.0f};
  std::vector<bool> seen(logits.size(), false);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    seen[static_cast<size_t>(SampleFrom(logits, {.temperature = 1.0f, .top_k = 2, .seed = seed}).token)] = true;
  }
  EXPECT_EQ(seen, (std::vector<bool>{false, true, true, false, false, false}));
}

// The definition in sampler.h, without any shortcut and with libm.
int32_t ReferenceSample(std::vector<float> logits, const SamplingParams& params, const SamplingContext& context) {
  for (size_t id = 0; id < logits.size() && !(context.prompt.empty() && context.outputs.empty()); ++id) {
    const auto count = std::count(context.outputs.begin(), context.outputs.end(), static_cast<int32_t>(id));
    const auto in_prompt = std::count(context.prompt.begin(), context.prompt.end(), static_cast<int32_t>(id));
    if (count + in_prompt == 0) continue;
    logits[id] = logits[id] > 0 ? logits[id] / params.repetition_penalty : logits[id] * params.repetition_penalty;
    logits[id] -= params.frequency_penalty * static_cast<float>(count);
    if (count > 0) logits[id] -= params.presence_penalty;
  }
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  std::vector<double> weights;
  for (size_t id : order) {
    weights.push_back(std::exp((static_cast<double>(logits[id]) - logits[order[0]]) / params.temperature));
  }
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t kept = 0;
  double kept_weight = 0;
  while (kept < weights.size() && weights[kept] >= params.min_p && (kept_weight < params.top_p * all)) {
    kept_weight += weights[kept++];
  }
  const double target =
      UniformDraw(params.seed, {.position = static_cast<uint32_t>(context.outputs.size())}) * kept_weight;
  double running = 0;
  for (size_t i = 0; i < kept; ++i) {
    running += weights[i];
    if (running > target) return static_cast<int32_t>(order[i]);
  }
  return static_cast<int32_t>(order[kept - 1]);
}

TEST(Sampler, AgreesWithThePlainReference) {
  constexpr int32_t kVocab = 777;
  Sampler sampler(kVocab);
  for (uint64_t seed = 0; seed < 3'000; ++seed) {
    SeededRandom random(seed);
    const auto pick = [&](std::vector<float> values) { return values[random.Below(values.size())]; };
    const SamplingParams params = {.temperature = pick({0.05f, 0.3f, 1, 1.7f, 100}),
                                   .top_k = static_cast<int32_t>(pick({0, 0, 1, 5, 40, 776, 777, 5000})),
                                   .top_p = pick({1, 1, 0.99f, 0.9f, 0.5f, 0.01f}),
                                   .min_p = pick({0, 0, 0.001f, 0.1f, 0.9f}),
                                   .repetition_penalty = pick({1, 1, 1.3f, 0.7f}),
                                   .frequency_penalty = pick({0, 0, 0.5f, -1}),
                                   .presence_penalty = pick({0, 0, 1.5f, -0.5f}),
                                   .seed = random.Next64()};
    std::vector<int32_t> prompt(random.Below(50));
    for (int32_t& token : prompt) token = static_cast<int32_t>(random.Below(kVocab));
    std::vector<int32_t> outputs(random.Below(50));
    for (int32_t& token : outputs) token = static_cast<int32_t>(random.Below(100));
    std::vector<float> logits = RandomLogits(kVocab, random);
    const SamplingContext context = {.prompt = prompt, .outputs = outputs};
    const int32_t expected = ReferenceSample(logits, params, context);
    ASSERT_EQ(sampler.Sample(params, context, absl::MakeSpan(logits)).token, expected) << "seed " << seed;
  }
}

// Long rows, whose bands are sorted by another algorithm.
TEST(Sampler, AgreesWithThePlainReferenceOnALargeFlatVocabulary) {
  Sampler sampler(20'000);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SeededRandom random(seed);
    std::vector<float> logits = RandomLogits(20'000, random);
    for (float& logit : logits) logit += static_cast<float>(random.Below(1 << 12)) * 0x1p-21f;
    const SamplingParams params = {.temperature = seed % 4 == 0 ? 2.0f : 100.0f,
                                   .top_k = seed % 5 == 0 ? 15'000 : 0,
                                   .top_p = seed % 2 == 0 ? 1.0f : 0.97f,
                                   .seed = seed};
    const int32_t expected = ReferenceSample(logits, params, {});
    ASSERT_EQ(sampler.Sample(params, {}, absl::MakeSpan(logits)).token, expected) << "seed " << seed;
  }
}

TEST(Sampler, TokensNeverChange) {
  SeededRandom random(5);
  uint64_t hash = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const float temperature = 0.5f + 0.25f * static_cast<float>(seed % 5);
    const SamplingParams params = {.temperature = temperature, .top_p = seed % 2 == 0 ? 1.0f : 0.9f, .seed = seed};
    hash = hash * 1099511628211u + static_cast<uint64_t>(SampleFrom(RandomLogits(2'000, random), params).token);
  }
  EXPECT_EQ(hash, 7941604237945073275u);
}

TEST(Sampler, EndAndStopTokensAreNotSampledBeforeMinTokens) {
  const std::vector<int32_t> eos = {2};
  const std::vector<float> logits = {0, 1, 5, 4, 3};
  SamplingParams params = {.min_tokens = 2, .stop_token_ids = {3}};
  const std::vector<int32_t> outputs = {1, 1};
  EXPECT_EQ(SampleFrom(logits, params, {.eos_ids = eos}).token, 4);
  EXPECT_EQ(SampleFrom(logits, params, {.outputs = outputs, .eos_ids = eos}).token, 2);
  params.ignore_eos = true;
  EXPECT_EQ(SampleFrom(logits, params, {.eos_ids = eos}).token, 2);
}

TEST(Sampler, ABiasIsAddedBeforeTheGreedyChoice) {
  const std::vector<float> logits = {1, 3, 2.5f, -4};
  EXPECT_EQ(SampleFrom(logits, {.logit_bias = {{2, 0.25f}}}).token, 1);
  EXPECT_EQ(SampleFrom(logits, {.logit_bias = {{2, 0.5f}}}).token, 1) << "the smallest id among equals";
  EXPECT_EQ(SampleFrom(logits, {.logit_bias = {{2, 0.75f}}}).token, 2);
  EXPECT_EQ(SampleFrom(logits, {.logit_bias = {{1, -0.75f}}}).token, 2);
  EXPECT_EQ(SampleFrom(logits, {.logit_bias = {{1, -100}, {2, -100}}}).token, 0);
  EXPECT_EQ(SampleFrom(logits, {.logit_bias = {{3, 100}}}).token, 3);
  EXPECT_EQ(SampleFrom({1, -kInfinity}, {.logit_bias = {{1, 100}}}).token, 0) << "what the model excludes stays so";
}

TEST(Sampler, ABannedTokenIsNeverDrawnAndAForcedOneAlways) {
  SeededRandom random(21);
  Sampler sampler(300);
  for (uint64_t seed = 0; seed < 5'000; ++seed) {
    const std::vector<float> logits = RandomLogits(300, random);
    SamplingParams params = {.temperature = 1.0f, .top_p = seed % 2 == 0 ? 1.0f : 0.9f, .seed = seed};
    // The token that is drawn without the bias is the one that could be drawn in spite of it.
    std::vector<float> row = logits;
    const int32_t drawn = sampler.Sample(params, {}, absl::MakeSpan(row)).token;
    params.logit_bias = {{drawn, -100}};
    row = logits;
    ASSERT_NE(sampler.Sample(params, {}, absl::MakeSpan(row)).token, drawn) << "seed " << seed;
    const auto forced = static_cast<int32_t>(random.Below(300));
    params.logit_bias = {{forced, 100}};
    row = logits;
    ASSERT_EQ(sampler.Sample(params, {}, absl::MakeSpan(row)).token, forced) << "seed " << seed;
  }
}

TEST(Sampler, ABiasIsThatOfLogitsThatHaveItAlready) {
  SeededRandom random(22);
  const std::vector<int32_t> prompt = {3, 40, 7};
  const std::vector<int32_t> outputs = {40, 9, 40};
  const SamplingContext context = {.prompt = prompt, .outputs = outputs};
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<float> logits = RandomLogits(100, random);
    SamplingParams params = {.temperature = seed % 3 == 0 ? 0.0f : 0.9f,
                             .top_k = seed % 5 == 0 ? 20 : 0,
                             .repetition_penalty = 1.5f,
                             .frequency_penalty = 0.5f,
                             .presence_penalty = 0.25f,
                             .seed = seed};
    const std::vector<TokenBias> biases = {{3, 1.5f}, {9, -2}, {40, 4}, {99, 3}};
    std::vector<float> biased = logits;
    for (const TokenBias& each : biases) biased[static_cast<size_t>(each.token)] += each.bias;
    const int32_t expected = SampleFrom(biased, params, context).token;
    params.logit_bias = biases;
    EXPECT_EQ(SampleFrom(logits, params, context).token, expected) << "seed " << seed;
  }
  // The penalty divides the sum, 6, and not the logit, 2.
  const std::vector<int32_t> first = {0};
  EXPECT_EQ(SampleFrom({2, 3.5f}, {.repetition_penalty = 2.0f, .logit_bias = {{0, 4}}}, {.prompt = first}).token, 1);
}

TEST(Sampler, ABiasOfNothingChangesNoBitOfARow) {
  SeededRandom random(23);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> logits = RandomLogits(300, random);
    const SamplingParams plain = {.temperature = 0.8f, .top_p = 0.95f, .seed = seed, .logprobs = 3};
    SamplingParams zero = plain;
    zero.logit_bias = {{0, 0}, {17, 0}, {299, 0}};
    EXPECT_EQ(SampleFrom(logits, plain), SampleFrom(logits, zero)) << "seed " << seed;
    std::vector<float> row = logits;
    Sampler sampler(300);
    sampler.Sample(plain, {}, absl::MakeSpan(row));
    EXPECT_EQ(row, logits);
  }
}

TEST(Sampler, ABiasGivesWayToMinTokens) {
  const std::vector<int32_t> eos = {2};
  SamplingParams params = {.min_tokens = 1, .logit_bias = {{2, 100}}};
  EXPECT_EQ(SampleFrom({0, 1, 0}, params, {.eos_ids = eos}).token, 1);
  params.min_tokens = 0;
  EXPECT_EQ(SampleFrom({0, 1, 0}, params, {.eos_ids = eos}).token, 2);
}

TEST(Sampler, PenaltiesCountPromptAndOutputsAsDocumented) {
  const std::vector<int32_t> prompt = {0};
  const std::vector<int32_t> outputs = {1, 1};
  const SamplingContext context = {.prompt = prompt, .outputs = outputs};
  // Repetition: 0 and 1 fall below 2.
  EXPECT_EQ(SampleFrom({4, 4, 3}, {.repetition_penalty = 2.0f}, context).token, 2);
  // Negative logits are multiplied.
  EXPECT_EQ(SampleFrom({-4, -4, -5}, {.repetition_penalty = 2.0f}, context).token, 2);
  // Frequency and presence look at outputs only.
  EXPECT_EQ(SampleFrom({3.5f, 4, 3}, {.frequency_penalty = 1.0f}, context).token, 0);
  EXPECT_EQ(SampleFrom({3.5f, 4, 3}, {.presence_penalty = 1.0f}, context).token, 0);
  EXPECT_EQ(SampleFrom({2.5f, 4, 3}, {.frequency_penalty = 0.75f}, context).token, 2);
  EXPECT_EQ(SampleFrom({2.5f, 4, 3}, {.presence_penalty = 0.75f}, context).token, 1);
}

TEST(Sampler, LogprobsAreOfTheModelsOwnDistribution) {
  const std::vector<float> logits = {1, 3, 2, 3, -kInfinity, kNan};
  const std::vector<int32_t> outputs = {1};
  const SamplingParams params = {.temperature = 0, .repetition_penalty = 3.0f, .logprobs = 4};
  const OutputToken sampled = SampleFrom(logits, params, {.outputs = outputs});
  const double log_total = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_EQ(sampled.token, 3);
  EXPECT_NEAR(sampled.logprob, 3 - log_total, 1e-6);
  ASSERT_EQ(sampled.top.size(), 4u);
  const std::vector<int32_t> order = {1, 3, 2, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sampled.top[i].token, order[i]);
    EXPECT_NEAR(sampled.top[i].logprob, logits[static_cast<size_t>(order[i])] - log_total, 1e-6);
  }
  // A bias changes the token, and no log-probability.
  SamplingParams biased = params;
  biased.logit_bias = {{1, -100}, {2, 50}, {3, -100}};
  const OutputToken other = SampleFrom(logits, biased, {.outputs = outputs});
  EXPECT_EQ(other.token, 2);
  EXPECT_NEAR(other.logprob, 2 - log_total, 1e-6);
  EXPECT_EQ(other.top, sampled.top);
  EXPECT_TRUE(SampleFrom(logits, {.logprobs = 0}).top.empty());
  EXPECT_LT(SampleFrom(logits, {.logprobs = 0}).logprob, 0.0f);
}

TEST(Sampler, LogprobsOfARealSizedVocabularyAddUpToOne) {
  SeededRandom random(8);
  const std::vector<float> logits = RandomLogits(49'152, random);
  const OutputToken sampled = SampleFrom(logits, {.logprobs = 20});
  double total = 0;
  for (float logit : logits) total += std::exp(static_cast<double>(logit) - logits[static_cast<size_t>(sampled.token)]);
  EXPECT_NEAR(sampled.logprob, -std::log(total), 1e-5);
  EXPECT_EQ(sampled.top[0].token, sampled.token);
  EXPECT_TRUE(std::is_sorted(sampled.top.begin(), sampled.top.end(),
                             [](const auto& a, const auto& b) { return a.logprob > b.logprob; }));
}

// The bits of `ids` in a vocabulary of `size`.
std::vector<uint64_t> Allow(const std::vector<int32_t>& ids, size_t size) {
  std::vector<uint64_t> words((size + 63) / 64);
  for (const int32_t id : ids) words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return words;
}

TEST(Sampler, OnlyWhatIsAllowedIsChosenWhereverItLies) {
  for (const size_t size : {5u, 64u, 65u, 200u, 256u}) {
    SeededRandom random(size);
    const std::vector<float> logits = RandomLogits(size, random);
    for (int32_t id = 0; id < static_cast<int32_t>(size); ++id) {
      const std::vector<uint64_t> words = Allow({id}, size);
      for (const float temperature : {0.0f, 1.0f}) {
        const OutputToken sampled = SampleFrom(logits, {.temperature = temperature}, {.allowed = {.words = words}});
        EXPECT_EQ(sampled.token, id) << "of " << size;
      }
    }
  }
}

// Were a banned token chosen, the first that is allowed would stand in for it.
TEST(Sampler, TheBestOfWhatIsAllowedIsChosenNotTheFirst) {
  for (const int32_t size : {5, 64, 65, 200, 256}) {
    for (int32_t best = 1; best < size; ++best) {
      std::vector<float> logits(static_cast<size_t>(size), 5.0f);
      logits[0] = 0.0f;
      logits[static_cast<size_t>(best)] = 1.0f;
      const std::vector<uint64_t> words = Allow({0, best}, logits.size());
      EXPECT_EQ(SampleFrom(logits, {}, {.allowed = {.words = words}}).token, best) << "of " << size;
    }
  }
}

TEST(Sampler, AllowingAllChangesNothing) {
  SeededRandom random(3);
  const std::vector<float> logits = RandomLogits(1000, random);
  std::vector<int32_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<uint64_t> words = Allow(all, 1000);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SamplingParams params = {.temperature = 1.0f, .top_p = 0.9f, .seed = seed};
    EXPECT_EQ(SampleFrom(logits, params, {.allowed = {.words = words}}).token, SampleFrom(logits, params).token);
  }
}

TEST(Sampler, WithoutANumberAmongWhatIsAllowedTheFirstIsChosen) {
  std::vector<float> logits(130, 1.0f);
  logits[70] = kNan;
  logits[129] = -kInfinity;
  const std::vector<uint64_t> words = Allow({70, 129}, 130);
  for (const float temperature : {0.0f, 1.0f}) {
    EXPECT_EQ(SampleFrom(logits, {.temperature = temperature}, {.allowed = {.words = words}}).token, 70);
  }
}

TEST(Sampler, TheOnlyTokenIsTakenUnlessItsLogProbabilityIsAskedFor) {
  const std::vector<uint64_t> words = Allow({2}, 4);
  const SamplingContext context = {.outputs = {}, .allowed = {.words = words, .only = 2}};
  EXPECT_EQ(SampleFrom({1, 1, 1, 1}, {.temperature = 1.0f}, context).token, 2);
  const OutputToken sampled = SampleFrom({1, 1, 1, 1}, {.temperature = 1.0f, .logprobs = 1}, context);
  EXPECT_EQ(sampled.token, 2);
  EXPECT_NEAR(sampled.logprob, std::log(0.25f), 1e-6f);
  ASSERT_EQ(sampled.top.size(), 1u);
  EXPECT_EQ(sampled.top[0].token, 0) << "log-probabilities are the model's";
}

}  // namespace
}  // namespace baton::engine
