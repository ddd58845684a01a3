// A mapping of some pages for a test. None of them is backed yet.
#ifndef BATON_COMMON_TESTING_MAPPED_PAGES_H_
#define BATON_COMMON_TESTING_MAPPED_PAGES_H_

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace baton {

inline constexpr size_t kTestPageBytes = 4096;
inline constexpr size_t kTestMappingBytes = (size_t{9} << 20) + 3 * kTestPageBytes;

class MappedPagesTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const base = mmap(nullptr, kTestMappingBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(base, MAP_FAILED);
    memory_ = absl::MakeSpan(static_cast<uint8_t*>(base), kTestMappingBytes);
  }
  void TearDown() override { munmap(memory_.data(), memory_.size()); }

  size_t ResidentPages() const {
    std::vector<unsigned char> pages(kTestMappingBytes / kTestPageBytes);
    EXPECT_EQ(mincore(memory_.data(), kTestMappingBytes, pages.data()), 0);
    return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; }));
  }

  absl::Span<uint8_t> memory_;
};

}  // namespace baton

#endif  // BATON_COMMON_TESTING_MAPPED_PAGES_H_
