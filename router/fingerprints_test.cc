#include "router/fingerprints.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::router {
namespace {

constexpr const char* kCpu = "exact-v2/kv:30x3x64-bf16-v1/weights:0123456789abcdef/probe:77";

TEST(FingerprintsTest, NumericsKvTypeAndDeviceAreNoOtherWeights) {
  EXPECT_EQ(WeightsOf(kCpu), "weights:0123456789abcdef");
  EXPECT_TRUE(HaveSameWeights(kCpu, kCpu));
  EXPECT_TRUE(HaveSameWeights(kCpu, "fp32-v2/kv:30x3x64-f32-v1/weights:0123456789abcdef/probe:78"));
  EXPECT_TRUE(HaveSameWeights(kCpu, "cuda-sm90-bf16-v1/kv:30x3x64-bf16-v1001/weights:0123456789abcdef/probe:79"));
}

TEST(FingerprintsTest, OtherWeightsAndOtherPrecisionsOfThemAreAnotherModel) {
  EXPECT_FALSE(HaveSameWeights(kCpu, "exact-v2/kv:30x3x64-bf16-v1/weights:0123456789abcdee/probe:77"));
  EXPECT_FALSE(HaveSameWeights(kCpu, "exact-v2/kv:30x3x64-bf16-v1/weights:0123456789abcdef-int8/probe:77"));
  EXPECT_FALSE(HaveSameWeights(kCpu, "exact-v2/kv:30x3x64-bf16-v1/weights:0123456789abcde"));
}

TEST(FingerprintsTest, WhatSaysNothingOfWeightsIsTheSameAsNothing) {
  for (const std::string fingerprint : {"", "f", "/", "exact-v2/kv:weights:1", "weightless:1/probe:2"}) {
    EXPECT_EQ(WeightsOf(fingerprint), "") << fingerprint;
    EXPECT_FALSE(HaveSameWeights(fingerprint, fingerprint)) << fingerprint;
    EXPECT_FALSE(HaveSameWeights(fingerprint, kCpu)) << fingerprint;
  }
}

}  // namespace
}  // namespace baton::router
