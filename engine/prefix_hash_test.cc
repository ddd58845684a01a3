#include "engine/prefix_hash.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

const PrefixNames kNames({1, 2});

std::vector<int32_t> Tokens(int32_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Sequence MakeSequence(SequenceId id, std::vector<int32_t> prompt, std::string tenant = "a",
                      std::vector<KvOrigin> origins = {}) {
  SequenceSpec spec;
  spec.origins = std::move(origins);
  spec.prompt = std::move(prompt);
  spec.tenant = std::move(tenant);
  const int32_t limit = static_cast<int32_t>(spec.prompt.size()) + 64;
  return Sequence(id, std::move(spec), limit, kNames);
}

// As if all of it were computed.
void Fill(Sequence& sequence, BlockPool& pool) {
  TakeBlocks(sequence, {}, BlocksForTokens(sequence.length()), pool);
  sequence.set_computed(sequence.length());
  sequence.PublishFullBlocks(pool);
}

TEST(PrefixHash, DependsOnTenantParentAndEveryToken) {
  std::vector<int32_t> tokens = Tokens(kBlockTokens);
  const Digest128 name = kNames.Next(kNames.Root("a"), tokens);
  EXPECT_EQ(name, PrefixNames({1, 2}).Next(kNames.Root("a"), tokens));
  EXPECT_NE(name, kNames.Next(kNames.Root("b"), tokens));
  EXPECT_NE(name, kNames.Next(name, tokens));
  for (int32_t& token : tokens) {
    ++token;
    EXPECT_NE(name, kNames.Next(kNames.Root("a"), tokens));
    --token;
  }
}

TEST(PrefixHash, TwoWorkersNameTheSameBlockDifferently) {
  const PrefixNames other({2, 1});
  const std::vector<int32_t> tokens = Tokens(kBlockTokens);
  EXPECT_NE(kNames.Root("a"), other.Root("a"));
  EXPECT_NE(kNames.Next({}, tokens), other.Next({}, tokens));
}

// The first words of XXH3's default secret.
constexpr uint64_t kXxh3Secret[] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
};
constexpr uint64_t kXxh3Prime = 0x9e3779b185ebca87;

// The parent and the tokens of one block, as they are hashed.
using HashedWords = std::array<uint64_t, 10>;

HashedWords WordsOf(const Digest128& parent, const std::vector<int32_t>& tokens) {
  HashedWords words = {parent.high, parent.low};
  std::memcpy(&words[2], tokens.data(), kBlockTokens * sizeof(int32_t));
  return words;
}

uint64_t FoldedProduct(uint64_t first, uint64_t second, size_t secret) {
  __extension__ using Uint128 = unsigned __int128;
  const Uint128 product = Uint128{first ^ kXxh3Secret[secret]} * (second ^ kXxh3Secret[secret + 1]);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// What XXH3-128 holds of 80 bytes before its last mixing.
Digest128 Xxh3State(const HashedWords& words) {
  Digest128 state = {.high = 0, .low = sizeof(words) * kXxh3Prime};
  const auto mix = [&](size_t a, size_t b, size_t secret) {
    state.low = (state.low + FoldedProduct(words[a], words[a + 1], secret)) ^ (words[b] + words[b + 1]);
    state.high = (state.high + FoldedProduct(words[b], words[b + 1], secret + 2)) ^ (words[a] + words[a + 1]);
  };
  mix(4, 4, 8);
  mix(2, 6, 4);
  mix(0, 8, 0);
  return state;
}

// Tokens that follow `parent` to the unkeyed digest that the victim's words have. Two words equal the secret, so their
// products are zero, and the words beside them set either half of the state to any value.
std::vector<int32_t> CraftedTokens(const HashedWords& victim, const Digest128& parent) {
  HashedWords words = victim;
  words[0] = parent.high;
  words[1] = parent.low;
  words[2] = kXxh3Secret[4];
  words[8] = kXxh3Secret[2];
  words[3] = words[9] = 0;
  const Digest128 want = Xxh3State(victim);
  const Digest128 have = Xxh3State(words);
  words[3] = (have.high ^ words[2] ^ want.high) - words[2];
  words[9] = (have.low ^ words[8] ^ want.low) - words[8];
  std::vector<int32_t> tokens(kBlockTokens);
  std::memcpy(tokens.data(), &words[2], kBlockTokens * sizeof(int32_t));
  return tokens;
}

TEST(PrefixHash, ATenantsCraftedPromptDoesNotHitWhatItsUnkeyedDigestWouldHit) {
  const auto root = [](std::string_view tenant) { return DigestBytes(tenant.data(), tenant.size()); };
  const auto digest = [](const HashedWords& words) { return DigestBytes(words.data(), sizeof(words)); };
  std::vector<int32_t> secret_prompt = Tokens(kBlockTokens, 100);
  const HashedWords victim = WordsOf(root("victim"), secret_prompt);
  std::vector<int32_t> crafted = CraftedTokens(victim, root("attacker"));
  ASSERT_EQ(digest(victim), digest(WordsOf(root("attacker"), crafted))) << "the digest changed: craft it anew";
  // The cache gives a block only if another token follows.
  secret_prompt.push_back(1);
  crafted.push_back(1);
  BlockPool pool(4);
  Sequence first = MakeSequence(1, secret_prompt, "victim");
  Fill(first, pool);
  Sequence again = MakeSequence(2, secret_prompt, "victim");
  EXPECT_EQ(FindPrefix(again, pool).blocks, 1);
  Sequence attack = MakeSequence(3, crafted, "attacker");
  EXPECT_EQ(FindPrefix(attack, pool).blocks, 0);
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
  Sequence sequence(1, spec, 65, kNames);
  EXPECT_EQ(sequence.blocks_to_resume(), 4);
  sequence.Append(1);
  EXPECT_EQ(sequence.blocks_to_resume(), 4);  // token 64 is the last, and its row is never run
  Sequence longer(2, spec, 66, kNames);
  longer.Append(1);
  EXPECT_EQ(longer.blocks_to_resume(), 5);
}

// A worker that gives wrong KV harms nobody else's requests.
TEST(PrefixCache, BlocksOfOtherWorkersServeOnlySequencesThatTrustAllOfThem) {
  const KvOrigin p1{.incarnation = {1, 1}, .target = "p:1"};
  const KvOrigin p2{.incarnation = {2, 2}, .target = "p:2"};
  const KvOrigin d{.incarnation = {3, 3}, .target = "d:1"};
  const KvOrigin restarted{.incarnation = {4, 4}, .target = "p:1"};
  const KvOrigin impostor{.incarnation = {1, 1}, .target = "p:2"};
  const std::vector<std::vector<KvOrigin>> all = {{},      {p1},    {p2},    {restarted}, {impostor},
                                                  {p1, d}, {p2, d}, {d, p1}, {d},         {p1, d, p2}};
  for (const auto& given : all) {
    for (const auto& trusted : all) {
      BlockPool pool(4);
      Sequence first = MakeSequence(1, Tokens(40), "a", given);
      Fill(first, pool);
      Sequence second = MakeSequence(2, Tokens(40), "a", trusted);
      const bool trusts = given.size() <= trusted.size() && std::equal(given.begin(), given.end(), trusted.begin());
      EXPECT_EQ(FindPrefix(second, pool).blocks, trusts ? 2 : 0)
          << "of " << given.size() << " origins, for one with " << trusted.size();
    }
  }
}

TEST(PrefixCache, ASequenceThatIsPulledTakesWhatIsComputedHereAndGoesOnWithWhatCameTheSameWay) {
  const std::vector<KvOrigin> p1 = {{.incarnation = {1, 1}, .target = "p:1"}};
  const std::vector<KvOrigin> p2 = {{.incarnation = {2, 2}, .target = "p:2"}};
  BlockPool pool(16);
  Sequence computed = MakeSequence(1, Tokens(17));
  Fill(computed, pool);
  Sequence first = MakeSequence(2, Tokens(49), "a", p1);
  TakeBlocks(first, FindPrefix(first, pool), 4, pool);
  EXPECT_EQ(first.block(0, 0), computed.block(0, 0));
  first.set_computed(first.length());
  first.PublishFullBlocks(pool);
  Sequence same = MakeSequence(3, Tokens(49), "a", p1);
  const PrefixHits hits = FindPrefix(same, pool);
  EXPECT_EQ(hits.blocks, 3);
  EXPECT_EQ(hits.used_blocks, 3);
  TakeBlocks(same, hits, 4, pool);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(same.block(0, i), first.block(0, i)) << i;
  Sequence other = MakeSequence(4, Tokens(49), "a", p2);
  EXPECT_EQ(FindPrefix(other, pool).blocks, 1);
  Sequence local = MakeSequence(5, Tokens(49));
  EXPECT_EQ(FindPrefix(local, pool).blocks, 1);
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
