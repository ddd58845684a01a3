#include "common/populate_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kBytes = (size_t{9} << 20) + 3 * kPageBytes;

class PopulatePagesTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(base, MAP_FAILED);
    memory_ = absl::MakeSpan(static_cast<uint8_t*>(base), kBytes);
  }
  void TearDown() override { munmap(memory_.data(), memory_.size()); }

  size_t ResidentPages() const {
    std::vector<unsigned char> pages(kBytes / kPageBytes);
    EXPECT_EQ(mincore(memory_.data(), kBytes, pages.data()), 0);
    return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; }));
  }

  absl::Span<uint8_t> memory_;
};

TEST_F(PopulatePagesTest, EveryPageIsThereAndNoByteChanges) {
  memory_[5] = 7;
  memory_[kBytes - 1] = 9;
  ASSERT_TRUE(PopulatePages(memory_).ok());
  EXPECT_EQ(ResidentPages(), kBytes / kPageBytes);
  EXPECT_EQ(memory_[5], 7);
  EXPECT_EQ(memory_[kBytes - 1], 9);
  EXPECT_EQ(memory_[kPageBytes], 0);
}

TEST_F(PopulatePagesTest, MemoryThatIsNotThereIsAnError) {
  ASSERT_EQ(munmap(memory_.data() + (size_t{4} << 20), kPageBytes), 0);
  EXPECT_EQ(PopulatePages(memory_).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PopulatePagesTest, APopulatorStaysAheadOfWhatIsUsedAndNoFurther) {
  constexpr size_t kAheadBytes = size_t{1} << 20;
  const size_t piece_pages = (size_t{256} << 10) / kPageBytes;
  PagePopulator populator(memory_, kAheadBytes);
  for (const size_t used : {size_t{0}, size_t{2} << 20, size_t{3} << 20}) {
    populator.SetUsed(used);
    const size_t wanted = (used + kAheadBytes) / kPageBytes;
    while (ResidentPages() < wanted) {
    }
    EXPECT_LE(ResidentPages(), wanted + piece_pages);
  }
  populator.SetUsed(kBytes);
  while (ResidentPages() < kBytes / kPageBytes) {
  }
}

}  // namespace
}  // namespace baton
