#include "common/populate_pages.h"

#include <sys/mman.h>

#include "common/testing/mapped_pages.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST_F(MappedPagesTest, EveryPageIsThereAndNoByteChanges) {
  memory_[5] = 7;
  memory_[kTestMappingBytes - 1] = 9;
  ASSERT_TRUE(PopulatePages(memory_).ok());
  EXPECT_EQ(ResidentPages(), kTestMappingBytes / kTestPageBytes);
  EXPECT_EQ(memory_[5], 7);
  EXPECT_EQ(memory_[kTestMappingBytes - 1], 9);
  EXPECT_EQ(memory_[kTestPageBytes], 0);
}

TEST_F(MappedPagesTest, MemoryThatIsNotThereIsAnError) {
  ASSERT_EQ(munmap(memory_.data() + (size_t{4} << 20), kTestPageBytes), 0);
  EXPECT_EQ(PopulatePages(memory_).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton
