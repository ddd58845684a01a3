// Digests of blocks: the kernel beside its definition, and what the definition tells apart.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/cuda/block_digest.h"
#include "engine/cuda/kernels/testing/digest_reference.h"
#include "engine/cuda/kernels/testing/kernel_device.h"

namespace baton::engine::cuda {
namespace {

constexpr uint64_t kDigestSeed = 577;
constexpr size_t kTileBytes = size_t{kDigestWords} * 16;

std::vector<uint8_t> RandomBlock(size_t bytes, RandomSource& random) {
  std::vector<uint8_t> block(bytes);
  for (uint8_t& one : block) one = static_cast<uint8_t>(random.Next64() >> 56);
  return block;
}

// The sums of the kernel over `bytes` of an array from `offset` on.
DigestSums RunDigest(const std::vector<uint8_t>& array, size_t offset, size_t bytes) {
  const DeviceArray<uint8_t> device(array);
  const int32_t words = static_cast<int32_t>(bytes / 16);
  const Launch launch = DigestLaunch(words);
  const DeviceArray<uint64_t> parts(size_t{2} * launch.grid_x);
  KernelDevice::Get().Run(
      "digest", DigestParams{reinterpret_cast<const uint64_t*>(device.get() + offset), parts.get(), words}, launch);
  DigestSums sums = {0, 0};
  const std::vector<uint64_t> values = parts.Values();
  for (size_t i = 0; i < values.size(); ++i) sums[i % 2] += values[i];
  return sums;
}

TEST(CudaDigest, EqualsItsDefinitionBitForBitOverEverySizeOfBlock) {
  SeededRandom random(kDigestSeed);
  for (const size_t bytes :
       {size_t{16}, size_t{32}, size_t{64}, size_t{2048} - 16, size_t{2048}, size_t{2048} + 64, kTileBytes - 64,
        kTileBytes - 16, kTileBytes, kTileBytes + 16, kTileBytes + 64, 3 * kTileBytes + 960, 5 * kTileBytes}) {
    const std::vector<uint8_t> block = RandomBlock(bytes, random);
    EXPECT_EQ(RunDigest(block, 0, bytes), DefinedSums(block)) << bytes << " bytes";
  }
}

TEST(CudaDigest, DependsOnNothingBesideTheBlock) {
  SeededRandom random(kDigestSeed);
  const size_t bytes = kTileBytes + 192;
  std::vector<uint8_t> pool = RandomBlock(3 * bytes, random);
  const std::vector<uint8_t> block(pool.begin() + static_cast<ptrdiff_t>(bytes),
                                   pool.begin() + static_cast<ptrdiff_t>(2 * bytes));
  const DigestSums sums = DefinedSums(block);
  EXPECT_EQ(RunDigest(pool, bytes, bytes), sums);
  for (size_t i = 0; i < pool.size(); ++i) {
    if (i / bytes != 1) pool[i] ^= 0xff;
  }
  EXPECT_EQ(RunDigest(pool, bytes, bytes), sums);
}

// What follows is of the definition, which the kernel equals.

TEST(CudaDigest, EveryBitThatFlipsChangesIt) {
  SeededRandom random(kDigestSeed);
  // The last one's words have terms that are zero.
  std::vector<std::vector<uint8_t>> blocks = {std::vector<uint8_t>(1024), std::vector<uint8_t>(1024, 0xff),
                                              RandomBlock(1024, random), std::vector<uint8_t>(1024)};
  for (uint64_t i = 0; i < 64; ++i) {
    const uint64_t half = 0 - (i + 1) * kDigestStep;
    std::memcpy(blocks[3].data() + 16 * i, &half, sizeof(half));
  }
  for (std::vector<uint8_t>& block : blocks) {
    const Digest128 digest = DefinedDigest(block);
    for (size_t bit = 0; bit < 8 * block.size(); ++bit) {
      block[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      EXPECT_NE(DefinedDigest(block), digest) << "bit " << bit;
      block[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
  }
}

// Every block that differs from the first, and the first, have different sums. Each sum alone tells them apart, because
// chance lets none of so few meet.
void ExpectAllDiffer(const std::string& what, const std::vector<std::vector<uint8_t>>& blocks) {
  for (const size_t half : {0, 1}) {
    std::set<uint64_t> sums;
    for (const std::vector<uint8_t>& block : blocks) sums.insert(DefinedSums(block)[half]);
    EXPECT_EQ(sums.size(), blocks.size()) << what << ", sum " << half;
  }
}

TEST(CudaDigest, TellsApartWordsThatWereSwapped) {
  SeededRandom random(kDigestSeed);
  for (const size_t bytes : {size_t{8}, size_t{16}, size_t{256}}) {
    const std::vector<uint8_t> block = RandomBlock(4096, random);
    std::vector<std::vector<uint8_t>> blocks = {block};
    for (size_t a = 0; a < block.size(); a += bytes) {
      for (size_t b = a + bytes; b < block.size(); b += bytes) {
        if (blocks.size() > 2000) break;
        std::vector<uint8_t>& swapped = blocks.emplace_back(block);
        const auto first = swapped.begin() + static_cast<ptrdiff_t>(a);
        std::swap_ranges(first, first + static_cast<ptrdiff_t>(bytes), swapped.begin() + static_cast<ptrdiff_t>(b));
      }
    }
    ExpectAllDiffer("swapped ranges of " + std::to_string(bytes), blocks);
  }
}

TEST(CudaDigest, TellsApartRangesThatAreZeroOrOfAnOlderCopy) {
  SeededRandom random(kDigestSeed);
  const std::vector<uint8_t> block = RandomBlock(4096, random);
  for (const std::vector<uint8_t>& older : {std::vector<uint8_t>(4096), RandomBlock(4096, random)}) {
    std::vector<std::vector<uint8_t>> blocks = {block};
    for (size_t begin = 0; begin < block.size(); begin += 64) {
      // In the middle, from the beginning, and to the end.
      for (const auto& [from, to] :
           {std::pair(begin, begin + 64), std::pair(size_t{0}, begin + 64), std::pair(begin, size_t{4096})}) {
        std::vector<uint8_t> torn = block;
        std::copy(older.begin() + static_cast<ptrdiff_t>(from), older.begin() + static_cast<ptrdiff_t>(to),
                  torn.begin() + static_cast<ptrdiff_t>(from));
        if (std::find(blocks.begin(), blocks.end(), torn) == blocks.end()) blocks.push_back(std::move(torn));
      }
    }
    EXPECT_GT(blocks.size(), 150u);
    ExpectAllDiffer("torn copies", blocks);
  }
}

TEST(CudaDigest, TellsApartBlocksThatSayTheSameEverywhereAndThoseThatMoved) {
  SeededRandom random(kDigestSeed);
  std::vector<std::vector<uint8_t>> blocks;
  for (int value = 0; value < 256; ++value) blocks.emplace_back(2048, static_cast<uint8_t>(value));
  std::vector<uint8_t> block = RandomBlock(2048, random);
  for (int i = 0; i < 128; ++i) {
    blocks.push_back(block);
    std::rotate(block.begin(), block.begin() + 16, block.end());
  }
  ExpectAllDiffer("constant and rotated blocks", blocks);
}

TEST(CudaDigest, OfABlockAndOfItsBeginningAreDifferent) {
  std::set<Digest128> digests;
  for (size_t bytes = 16; bytes <= 1024; bytes += 16) digests.insert(DefinedDigest(std::vector<uint8_t>(bytes)));
  EXPECT_EQ(digests.size(), 64u);
}

// Counts changes that a sum may lose: how often certain bits of the differences are zero, in both sums at once.
struct LostChanges {
  // 16 bits of a sum: the lowest and the highest of each.
  std::array<int, 4> of_one = {};
  // 8 bits of each sum: from bit 0 or 32 on.
  std::array<int, 4> of_both = {};

  void Count(const DigestSums& before, const DigestSums& after) {
    const uint64_t apart[] = {after[0] - before[0], after[1] - before[1]};
    for (size_t i = 0; i < 4; ++i) {
      of_one[i] += (i % 2 == 0 ? apart[i / 2] & 0xffff : apart[i / 2] >> 48) == 0 ? 1 : 0;
      of_both[i] += (apart[0] >> (i % 2 * 32) & 0xff) == 0 && (apart[1] >> (i / 2 * 32) & 0xff) == 0 ? 1 : 0;
    }
  }
};

// The same bit of two words, whose differences would cancel in sums that are too simple.
TEST(CudaDigest, ChangesOfTwoWordsCancelNoMoreOftenThanByChance) {
  SeededRandom random(kDigestSeed);
  constexpr int kBlocks = 1 << 14;
  constexpr int kChanges = 32;
  constexpr int kByChance = kBlocks * kChanges >> 16;
  LostChanges lost;
  for (int i = 0; i < kBlocks; ++i) {
    std::vector<uint8_t> block = RandomBlock(32, random);
    const DigestSums before = DefinedSums(block);
    for (int j = 0; j < kChanges; ++j) {
      const size_t bit = random.Below(128);
      const auto flip = [&] {
        for (const size_t word : {0, 16}) block[word + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      };
      flip();
      lost.Count(before, DefinedSums(block));
      flip();
    }
  }
  for (const int count : lost.of_one) EXPECT_LE(count, 4 * kByChance);
  for (const int count : lost.of_both) EXPECT_LE(count, 4 * kByChance);
}

class CudaBlockDigest : public testing::Test {
 protected:
  void SetUp() override {
    const void* const images[] = {KernelTestImage()};
    ASSERT_EQ(KernelTestDriver().init(0), CUDA_SUCCESS);
    auto device = Device::Open(KernelTestDriver(), 0, images);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto stream = Stream::Create(*device_);
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_.emplace(*std::move(stream));
  }

  std::unique_ptr<Device> device_;
  std::optional<Stream> stream_;
};

TEST_F(CudaBlockDigest, IsThatOfTheDefinitionWhereverTheBlockLies) {
  SeededRandom random(kDigestSeed);
  for (const size_t bytes : {size_t{64}, size_t{8192}, 2 * kTileBytes + 64}) {
    const auto digest = BlockDigest::Create(*device_, bytes);
    const auto pool = DeviceBuffer::Allocate(*device_, 2 * bytes);
    ASSERT_TRUE(digest.ok() && pool.ok()) << digest.status() << pool.status();
    for (const size_t offset : {size_t{0}, bytes}) {
      const std::vector<uint8_t> block = RandomBlock(bytes, random);
      stream_->CopyToDevice(pool->address() + offset, block.data(), bytes);
      Digest128 got;
      digest->Take(pool->address(), {offset}, absl::MakeSpan(&got, 1), *stream_);
      EXPECT_EQ(got, DefinedDigest(block)) << bytes << " at " << offset;
    }
  }
}

// Fewer than are taken together, as many, and more.
TEST_F(CudaBlockDigest, ManyBlocksHaveTheDigestsOfEachAlone) {
  SeededRandom random(kDigestSeed);
  constexpr size_t kBytes = 64;
  const auto digest = BlockDigest::Create(*device_, kBytes);
  ASSERT_TRUE(digest.ok()) << digest.status();
  for (const size_t count : {size_t{3}, BlockDigest::kMostTogether, 2 * BlockDigest::kMostTogether + 1}) {
    const auto pool = DeviceBuffer::Allocate(*device_, count * kBytes);
    ASSERT_TRUE(pool.ok()) << pool.status();
    std::vector<size_t> offsets;
    std::vector<Digest128> want;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<uint8_t> block = RandomBlock(kBytes, random);
      stream_->CopyToDevice(pool->address() + i * kBytes, block.data(), kBytes);
      offsets.push_back(i * kBytes);
      want.push_back(DefinedDigest(block));
    }
    std::reverse(offsets.begin(), offsets.end());
    std::reverse(want.begin(), want.end());
    std::vector<Digest128> got(count);
    digest->Take(pool->address(), offsets, absl::MakeSpan(got), *stream_);
    EXPECT_TRUE(got == want) << count;
  }
}

}  // namespace
}  // namespace baton::engine::cuda
