#include "worker/page_populator.h"

#include "common/testing/mapped_pages.h"
#include "gtest/gtest.h"

namespace baton::worker {
namespace {

TEST_F(MappedPagesTest, APopulatorStaysAheadOfWhatIsUsedAndNoFurther) {
  constexpr size_t kAheadBytes = size_t{1} << 20;
  const size_t piece_pages = (size_t{256} << 10) / kTestPageBytes;
  PagePopulator populator(memory_, kAheadBytes);
  for (const size_t used : {size_t{0}, size_t{2} << 20, size_t{3} << 20}) {
    populator.SetUsed(used);
    const size_t wanted = (used + kAheadBytes) / kTestPageBytes;
    while (ResidentPages() < wanted) {
    }
    EXPECT_LE(ResidentPages(), wanted + piece_pages);
  }
  populator.SetUsed(kTestMappingBytes);
  while (ResidentPages() < kTestMappingBytes / kTestPageBytes) {
  }
}

}  // namespace
}  // namespace baton::worker
