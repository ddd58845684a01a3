// The interpreter beside what GPUs recorded, and the code that compares them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/kernels/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ptx/golden/golden_file.h"
#include "tests/ptx/interpreted_driver.h"

namespace baton::ptx {
namespace {

using engine::kernels::BitsToFloat;
using engine::kernels::FloatToBits;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PtxGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(InterpretedDriver().init(0), CUDA_SUCCESS);
    const void* const images[] = {FragmentsImage()};
    auto device = engine::cuda::Device::Open(InterpretedDriver(), 0, images);
    ASSERT_TRUE(device.ok()) << device.status() << ModuleError();
    auto results = RunFragments(**device, AllFragments());
    ASSERT_TRUE(results.ok()) << results.status();
    results_ = new std::vector<FragmentResult>(*std::move(results));
    for (const Finding& finding : TakeFindings()) ADD_FAILURE() << ToString(finding);
  }

  // As if a device had recorded what the interpreter makes.
  static GoldenFile OwnFile() {
    return {.device = std::string(kInterpreterName), .capability = 80, .driver = 13000, .results = *results_};
  }
  static FragmentResult& Find(GoldenFile& file, const std::string& name) {
    return *std::find_if(file.results.begin(), file.results.end(), [&](const auto& one) { return one.name == name; });
  }
  static GoldenComparison Compare(const GoldenFile& file) { return CompareWithGolden(file, fragments_, *results_); }

  static inline const std::vector<Fragment> fragments_ = AllFragments();
  static inline const std::vector<FragmentResult>* results_ = nullptr;
};

TEST_F(PtxGolden, TheInterpreterAgreesWithEveryFileThatAGpuRecorded) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BATON_SOURCE_DIR "/tests/ptx/golden")) {
    if (entry.path().extension() != kGoldenSuffix) continue;
    ++files;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto golden = ParseGolden(text.str());
    ASSERT_TRUE(golden.ok()) << entry.path() << ": " << golden.status();
    ASSERT_NE(golden->device, kInterpreterName) << entry.path() << " was recorded on no GPU";
    EXPECT_EQ(entry.path().filename().string(), GoldenName(*golden));
    const GoldenComparison comparison = Compare(*golden);
    EXPECT_THAT(comparison.differences, IsEmpty()) << entry.path();
    for (const std::string& name : comparison.not_recorded) {
      std::cout << entry.path().filename() << " has no fragment " << name << "\n";
    }
  }
  if (files == 0) GTEST_SKIP() << "no golden file recorded on a GPU yet";
}

TEST_F(PtxGolden, WhatIsWrittenIsReadAndAgrees) {
  const std::filesystem::path path = testing::TempDir() + "/" + GoldenName(OwnFile());
  EXPECT_EQ(path.filename().string(), "PTX_interpreter-sm80.golden");
  std::ofstream(path) << GoldenText(OwnFile());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const auto file = ParseGolden(text.str());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->device, kInterpreterName);
  EXPECT_EQ(file->driver, 13000);
  const GoldenComparison comparison = Compare(*file);
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(comparison.not_recorded, IsEmpty());
  EXPECT_EQ(comparison.other_bits, 0);
}

// The matrices are those of fragments.cc, whole numbers that bf16 holds and whose sums f32 holds.
TEST_F(PtxGolden, TheLayoutsFragmentIsTheProductOfItsMatrices) {
  GoldenFile file = OwnFile();
  const std::vector<uint32_t>& values = Find(file, "mma-layout").values;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = 1000.0f * row + column;
      for (int k = 0; k < 16; ++k) sum += (16.0f * row + k) * (8.0f * k + column - 64.0f);
      EXPECT_EQ(BitsToFloat(values[static_cast<size_t>(4 * lane + i)]), sum) << row << ", " << column;
    }
  }
}

TEST_F(PtxGolden, AnExactFragmentFailsByOneBit) {
  for (const Fragment& fragment : fragments_) {
    if (!fragment.tolerances.empty()) continue;
    GoldenFile file = OwnFile();
    FragmentResult& result = Find(file, fragment.name);
    const int at = 5 * result.words + 1;
    result.values[static_cast<size_t>(at)] ^= 1;
    EXPECT_THAT(Compare(file).differences,
                ElementsAre(AllOf(HasSubstr(fragment.name), HasSubstr(": 1 of "), HasSubstr("lane 5, word 1 is "))));
  }
}

TEST_F(PtxGolden, TwoLanesThatChangedPlacesFail) {
  for (const char* const name :
       {"mma-layout", "mma-sums", "ldmatrix-x4", "ldmatrix-x4-trans", "shuffles", "cp-async"}) {
    GoldenFile file = OwnFile();
    FragmentResult& result = Find(file, name);
    const auto lane = [&](int i) { return result.values.begin() + i * result.words; };
    std::swap_ranges(lane(6), lane(7), lane(7));
    EXPECT_THAT(Compare(file).differences, ElementsAre(HasSubstr(name)));
  }
}

TEST_F(PtxGolden, ASumMayBeOffByItsToleranceAndNotByMore) {
  for (const Fragment& fragment : fragments_) {
    if (fragment.tolerances.empty() || fragment.name == "mma-specials") continue;
    // A word far from the special inputs.
    const size_t at = 100;
    GoldenFile file = OwnFile();
    uint32_t& word = Find(file, fragment.name).values[at];
    const float value = BitsToFloat(word), tolerance = fragment.tolerances[at];
    ASSERT_GT(tolerance, 0) << fragment.name;
    word = FloatToBits(value + 0.9f * tolerance);
    EXPECT_THAT(Compare(file).differences, IsEmpty()) << fragment.name;
    EXPECT_LE(Compare(file).other_bits, 1);
    word = FloatToBits(value + 4 * tolerance);
    EXPECT_THAT(Compare(file).differences, ElementsAre(HasSubstr(fragment.name)));
  }
}

TEST_F(PtxGolden, ANaNStandsForAnotherAndAnInfinityForNothingElse) {
  GoldenFile file = OwnFile();
  // Lane 4 has row 1, which is not a number; lane 0 has row 0, which is infinite.
  std::vector<uint32_t>& values = Find(file, "mma-specials").values;
  values[4 * 4] = 0xffc00001;
  EXPECT_THAT(Compare(file).differences, IsEmpty());
  EXPECT_EQ(Compare(file).other_bits, 1);
  for (const uint32_t other : {0x7f7fffffu, 0xff800000u, 0x7fffffffu}) {
    values[0] = other;
    EXPECT_THAT(Compare(file).differences, ElementsAre(HasSubstr("mma-specials: 1 of 128")));
  }
}

TEST_F(PtxGolden, OtherInputsAreSaidAndAMissingFragmentIsNoDifference) {
  GoldenFile file = OwnFile();
  file.results[1].inputs[0] ^= 1;
  EXPECT_THAT(Compare(file).differences, ElementsAre(HasSubstr("mma-sums was recorded with other inputs")));
  file.results.erase(file.results.begin() + 1);
  EXPECT_THAT(Compare(file).differences, IsEmpty());
  EXPECT_THAT(Compare(file).not_recorded, ElementsAre("mma-sums"));
}

TEST_F(PtxGolden, ADamagedFileIsRefusedByItsLine) {
  const std::string text = GoldenText(OwnFile());
  const auto error_of = [](const std::string& damaged) { return std::string(ParseGolden(damaged).status().message()); };
  EXPECT_EQ(error_of(""), "line 1 is not the first line of a golden file");
  EXPECT_THAT(error_of(text.substr(0, text.size() - 4)), HasSubstr("nor the end"));
  EXPECT_THAT(error_of(text.substr(0, text.size() / 2)), HasSubstr("is not lane"));
  std::string damaged = text;
  damaged.replace(damaged.find("capability"), 10, "capacities");
  EXPECT_EQ(error_of(damaged), "line 3 is not a capability");
  damaged = text;
  damaged.replace(damaged.find("lane 0 ") + 7, 1, "g");
  EXPECT_EQ(error_of(damaged), "line 6 is not in hexadecimal");
}

}  // namespace
}  // namespace baton::ptx
