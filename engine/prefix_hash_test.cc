#include "engine/prefix_hash.h"

#include <numeric>
#include <vector>

#include "engine/sequence.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

std::vector<int32_t> Tokens(int32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Sequence MakeSequence(SequenceId id, std::vector<int32_t> prompt, std::string tenant = "a") {
  SequenceSpec spec;
  spec.prompt = std::move(prompt);
  spec.tenant = std::move(tenant);
  const int32_t limit = static_cast<int32_t>(spec.prompt.size()) + 64;
  return Sequence(id, std::move(spec), limit);
}

// As if all of it were computed.
void Fill(Sequence& sequence, BlockPool& pool) {
  TakeBlocks(sequence, {}, BlocksForTokens(sequence.length()), pool);
  sequence.set_computed(sequence.length());
  sequence.PublishFullBlocks(pool);
}

TEST(PrefixHash, IsTheDigestChainOfTenantAndTokens) {
  const std::vector<int32_t> tokens = Tokens(kBlockTokens);
  const Digest128 root = PrefixRoot("tenant");
  EXPECT_EQ(root, DigestBytes("tenant", 6));
  EXPECT_EQ(NextBlockName(root, tokens), DigestChain(root, tokens.data(), tokens.size() * sizeof(int32_t)));
}

TEST(PrefixHash, DependsOnTenantParentAndEveryToken) {
  std::vector<int32_t> tokens = Tokens(kBlockTokens);
  const Digest128 name = NextBlockName(PrefixRoot("a"), tokens);
  EXPECT_NE(name, NextBlockName(PrefixRoot("b"), tokens));
  EXPECT_NE(name, NextBlockName(name, tokens));
  for (int32_t& token : tokens) {
    ++token;
    EXPECT_NE(name, NextBlockName(PrefixRoot("a"), tokens));
    --token;
  }
}

TEST(PrefixCache, FindsWholeBlocksAndLeavesAtLeastOneTokenToCompute) {
  BlockPool pool(16);
  Sequence first = MakeSequence(1, Tokens(48));
  Fill(first, pool);
  Sequence same = MakeSequence(2, Tokens(48));
  EXPECT_EQ(FindPrefix(same, pool).blocks, 2);  // 47 tokens are 2 whole blocks
  Sequence longer = MakeSequence(3, Tokens(49));
  EXPECT_EQ(FindPrefix(longer, pool).blocks, 3);
  Sequence shorter = MakeSequence(4, Tokens(31));
  EXPECT_EQ(FindPrefix(shorter, pool).blocks, 1);
  Sequence other = MakeSequence(5, Tokens(48, 1));
  EXPECT_EQ(FindPrefix(other, pool).blocks, 0);
  Sequence stranger = MakeSequence(6, Tokens(48), "b");
  EXPECT_EQ(FindPrefix(stranger, pool).blocks, 0);
}

TEST(PrefixCache, CountsHitsThatAreInUseApartFromThoseThatAreOnlyCached) {
  BlockPool pool(16);
  Sequence first = MakeSequence(1, Tokens(40));
  Fill(first, pool);
  Sequence second = MakeSequence(2, Tokens(40));
  EXPECT_EQ(FindPrefix(second, pool).used_blocks, 2);
  first.ReleaseBlocks(pool);
  EXPECT_EQ(FindPrefix(second, pool).blocks, 2);
  EXPECT_EQ(FindPrefix(second, pool).used_blocks, 0);
}

TEST(PrefixCache, HitIsSharedAndNotWrittenAgain) {
  BlockPool pool(16);
  Sequence first = MakeSequence(1, Tokens(40));
  Fill(first, pool);
  Sequence second = MakeSequence(2, Tokens(40));
  TakeBlocks(second, FindPrefix(second, pool), 3, pool);
  EXPECT_EQ(second.computed(), 32);
  EXPECT_EQ(second.blocks()[0], first.blocks()[0]);
  EXPECT_EQ(second.blocks()[1], first.blocks()[1]);
  EXPECT_NE(second.blocks()[2], first.blocks()[2]);
  EXPECT_EQ(pool.refs(first.blocks()[0]), 2);
}

TEST(Sequence, ResumingNeverNeedsMoreBlocksThanItsLimit) {
  SequenceSpec spec;
  spec.prompt = Tokens(63);
  Sequence sequence(1, spec, 65);
  EXPECT_EQ(sequence.blocks_to_resume(), 4);
  sequence.Append(1);
  EXPECT_EQ(sequence.blocks_to_resume(), 4);  // token 64 is the last, and its row is never run
  Sequence longer(2, spec, 66);
  longer.Append(1);
  EXPECT_EQ(longer.blocks_to_resume(), 5);
}

TEST(PrefixCache, EndOfAChainIsEvictedBeforeItsBeginning) {
  BlockPool pool(3);
  Sequence first = MakeSequence(1, Tokens(48));
  Fill(first, pool);
  first.ReleaseBlocks(pool);
  pool.Allocate();
  Sequence longer = MakeSequence(2, Tokens(60));
  EXPECT_EQ(FindPrefix(longer, pool).blocks, 2);
}

}  // namespace
}  // namespace baton::engine
