#include "common/sampling_params.h"
#include "engine/cuda/kernels/testing/kernel_device.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "engine/sampler.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kSampleSeed = 16807;
constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();
constexpr float kNoLogit = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> RunSample(const std::vector<float>& logits, const std::vector<SampleRow>& rows) {
  const DeviceArray<float> in(logits);
  const DeviceArray<SampleRow> device_rows(rows);
  const DeviceArray<int32_t> tokens(rows.size());
  const int32_t count = static_cast<int32_t>(rows.size());
  const int32_t vocab = static_cast<int32_t>(logits.size()) / count;
  KernelDevice::Get().Run("sample", SampleParams{in.get(), device_rows.get(), tokens.get(), vocab},
                          SampleLaunch(count));
  return tokens.Values();
}

// The CPU's token for output `row.position` of a request with these parameters.
int32_t OnCpu(std::vector<float> logits, const SampleRow& row) {
  SamplingParams params;
  params.seed = row.seed;
  params.temperature = row.temperature;
  params.top_k = row.top_k;
  params.top_p = row.top_p;
  params.min_p = row.min_p;
  const std::vector<int32_t> outputs(row.position, 0);
  Sampler sampler(static_cast<int32_t>(logits.size()));
  return sampler.Sample(params, {.outputs = outputs}, absl::MakeSpan(logits)).token;
}

// Checks rows of one vocabulary together.
void ExpectAsOnCpu(const std::vector<std::vector<float>>& logits, const std::vector<SampleRow>& rows) {
  std::vector<float> all;
  for (const std::vector<float>& row : logits) all.insert(all.end(), row.begin(), row.end());
  const std::vector<int32_t> got = RunSample(all, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(got[i], OnCpu(logits[i], rows[i]))
        << "row " << i << ": temperature " << rows[i].temperature << " top_k " << rows[i].top_k << " top_p "
        << rows[i].top_p << " min_p " << rows[i].min_p << " seed " << rows[i].seed;
  }
}

TEST(CudaSample, DrawsTheCpusTokenWithAnyFilters) {
  SeededRandom random(kSampleSeed);
  std::vector<std::vector<float>> logits;
  std::vector<SampleRow> rows;
  for (const float temperature : {0.0f, 0.3f, 1.0f, 4.0f}) {
    for (const int32_t top_k : {0, 1, 20}) {
      for (const float top_p : {1.0f, 0.8f}) {
        for (const float min_p : {0.0f, 0.1f}) {
          logits.push_back(RandomFloats(random, 300, 6.0f));
          rows.push_back({random.Next64(), static_cast<uint32_t>(random.Below(50)), temperature, top_k, top_p, min_p});
        }
      }
    }
  }
  ExpectAsOnCpu(logits, rows);
}

TEST(CudaSample, DrawsFromAFlatVocabularyThatNoChunkHolds) {
  SeededRandom random(kSampleSeed);
  std::vector<std::vector<float>> logits;
  std::vector<SampleRow> rows;
  for (int i = 0; i < 2; ++i) {
    // All logits equal, then nearly so.
    logits.push_back(std::vector<float>(5000, -1.25f));
    if (i == 1) logits.back() = RandomFloats(random, 5000, 0.2f);
    rows.push_back(
        {.seed = random.Next64(), .position = 3, .temperature = 1.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f});
  }
  ExpectAsOnCpu(logits, rows);
}

TEST(CudaSample, WhatIsNoOrdinaryNumberIsTakenAsOnTheCpu) {
  const auto with = [](std::vector<std::pair<size_t, float>> changes) {
    std::vector<float> logits(40, 0.5f);
    for (const auto& [at, x] : changes) logits[at] = x;
    return logits;
  };
  std::vector<std::vector<float>> logits = {with({{3, kNoLogit}, {7, 2.0f}}),
                                            with({{0, -kInfiniteLogit}, {39, -kInfiniteLogit}}),
                                            with({{5, kInfiniteLogit}, {9, kInfiniteLogit}}),
                                            std::vector<float>(40, kNoLogit),
                                            std::vector<float>(40, -kInfiniteLogit),
                                            with({{0, -0.0f}, {1, 0.0f}})};
  std::vector<SampleRow> rows;
  for (size_t i = 0; i < logits.size(); ++i) rows.push_back({i + 1, 0, 0.9f, 0, 0.95f, 0.0f});
  ExpectAsOnCpu(logits, rows);
}

}  // namespace
}  // namespace baton::engine::cuda
