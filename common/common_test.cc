#include <cmath>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "common/ids.h"
#include "common/kv_layout.h"
#include "common/limits.h"
#include "common/mailbox.h"
#include "common/random.h"
#include "common/sampling_params.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr int32_t kVocab = 100;

TEST(Id128, HexRoundTripsAndRefusesAnythingElse) {
  SeededRandom random(7);
  const Id128 id = random.NextId();
  EXPECT_EQ(*Id128::FromHex(id.ToHex()), id);
  EXPECT_FALSE(Id128::FromHex("12").ok());
  EXPECT_FALSE(Id128::FromHex(std::string(32, 'G')).ok());
}

TEST(KvLayout, BlockOfTheDefaultModelIs360KiB) {
  const KvLayout layout{.layers = 30, .kv_heads = 3, .head_dim = 64};
  EXPECT_EQ(layout.token_bytes(), 23'040u);
  EXPECT_EQ(layout.block_bytes(), 368'640u);
  EXPECT_EQ(BlocksForTokens(0), 0);
  EXPECT_EQ(BlocksForTokens(16), 1);
  EXPECT_EQ(BlocksForTokens(17), 2);
}

// Five of six layers slide, as in Gemma 3.
KvLayout Gemma() {
  KvLayout layout{.layers = 18, .kv_heads = 1, .head_dim = 256, .window = 512};
  for (int i = 0; i < 18; ++i) layout.sliding_layers.push_back(i % 6 != 5);
  return layout;
}

TEST(KvLayout, LayersThatSlideAreInBlocksOfTheirOwn) {
  const KvLayout layout = Gemma();
  EXPECT_EQ(layout.groups(), (KvGroups{.full = 1, .sliding = 5, .window = 512}));
  EXPECT_EQ(layout.group_layers(), 3);
  EXPECT_EQ(layout.block_bytes(), 3u * 2 * 16 * 256 * 2);
  EXPECT_EQ(layout.token_bytes(), 18u * 2 * 256 * 2);
  std::set<std::pair<int32_t, int32_t>> places;
  const std::vector<KvLayout::Place> all = layout.Places();
  for (int32_t i = 0; i < layout.layers; ++i) {
    const KvLayout::Place place = all.at(static_cast<size_t>(i));
    EXPECT_EQ(place.group == 0, i % 6 == 5) << i;
    EXPECT_TRUE(place.group < 6 && place.index < 3) << i;
    EXPECT_TRUE(places.emplace(place.group, place.index).second) << i;
  }
}

TEST(KvLayout, TellsOfWindowAndSlidingLayers) {
  KvLayout other = Gemma();
  EXPECT_EQ(other.ToString(), "18x1x256-bf16-v0-window512-sssssfsssssfsssssf");
  other.window = 511;
  EXPECT_FALSE(other == Gemma());
  other = {.layers = 18, .kv_heads = 1, .head_dim = 256};
  EXPECT_EQ(other.ToString(), "18x1x256-bf16-v0");
  EXPECT_EQ(other.groups(), KvGroups{});
}

TEST(KvLayout, AModelWhoseLayersAllSlideHasOneGroup) {
  const KvLayout layout{.layers = 2, .kv_heads = 1, .head_dim = 16, .window = 32, .sliding_layers = {true, true}};
  EXPECT_EQ(layout.groups(), (KvGroups{.full = 0, .sliding = 1, .window = 32}));
  EXPECT_EQ(layout.Places().at(1).index, 1);
}

TEST(KvGroups, HandsOverWhatTheRowAfterThePromptSees) {
  const KvGroups groups{.full = 1, .sliding = 5, .window = 32};
  // Row 100 sees 69..99, which begin in block 4 of 7.
  EXPECT_EQ(groups.FirstSeen(100), 4);
  EXPECT_EQ(groups.HandedOver(100), 7 + 5 * 3);
  EXPECT_EQ(groups.HandedOverBefore(4, 100), 4);
  EXPECT_EQ(groups.HandedOverBefore(5, 100), 5 + 5);
  EXPECT_EQ(groups.HandedOver(20), 6 * 2);
  EXPECT_EQ(KvGroups{}.HandedOver(100), 7);
  // Row 47 sees 16..47, and row 46 also sees 15.
  EXPECT_EQ(groups.FirstSeen(47), 1);
  EXPECT_EQ(groups.FirstSeen(46), 0);
}

TEST(KvGroups, EveryBlockThatIsHandedOverHasAGroup) {
  const KvGroups groups{.full = 2, .sliding = 3, .window = 32};
  // Row 50 sees 19..49, which begin in block 1 of 4.
  std::vector<int32_t> of_places;
  for (int32_t place = 0; place < groups.HandedOver(50); ++place) of_places.push_back(groups.GroupOf(place, 50));
  EXPECT_THAT(of_places, testing::ElementsAre(0, 1, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4));
  EXPECT_EQ(KvGroups{}.GroupOf(6, 100), 0);
  const KvGroups sliding{.full = 0, .sliding = 1, .window = 32};
  EXPECT_EQ(sliding.GroupOf(0, 100), 0);
}

TEST(KvLayout, TheFirstLayersFillTheBeginningsOfTheBlocksOfTheirGroups) {
  // Groups of three layers: the full ones are 5, 11 and 17, the sliding ones fill five groups in order.
  const KvLayout layout = Gemma();
  const uint64_t layer = layout.layer_bytes();
  EXPECT_EQ(layout.block_bytes(), 3 * layer);
  EXPECT_THAT(layout.BytesOfLayers(0), testing::Each(0));
  EXPECT_THAT(layout.BytesOfLayers(6), testing::ElementsAre(layer, 3 * layer, 2 * layer, 0, 0, 0));
  EXPECT_THAT(layout.BytesOfLayers(18), testing::Each(3 * layer));
}

TEST(KvGroups, BlocksOfSlidingGroupsAreBoundByWindowAndChunk) {
  const KvGroups groups{.full = 2, .sliding = 3, .window = 64};
  EXPECT_EQ(groups.MostBlocks(32, 512), 5 * 2);
  EXPECT_EQ(groups.MostBlocks(16'000, 32), 2 * 1'000 + 3 * (4 + 2));
  EXPECT_EQ(KvGroups{}.MostBlocks(16'000, 32), 1'000);
  for (int32_t window = 1; window < 70; ++window) {
    const KvGroups one{.full = 0, .sliding = 1, .window = window};
    for (int32_t row = 0; row < 200; ++row) {
      EXPECT_LE(row / kBlockTokens + 1 - one.FirstSeen(row), one.MostBlocks(row + 1, kBlockTokens));
      EXPECT_LE(one.HandedOver(row), one.MostBlocks(row, kBlockTokens));
    }
  }
}

TEST(KvLayout, AnInt8BlockHasAScaleForEachTokenAndHead) {
  const KvLayout layout{.layers = 30, .kv_heads = 3, .head_dim = 64, .dtype = KvDtype::kInt8};
  EXPECT_EQ(layout.head_part_bytes(), 16u * 64 + 16 * 4);
  EXPECT_EQ(layout.token_bytes(), 12'240u);
  EXPECT_EQ(layout.block_bytes(), 195'840u);
  EXPECT_NE(layout.ToString(), (KvLayout{.layers = 30, .kv_heads = 3, .head_dim = 64}).ToString());
}

TEST(Digest, ChainDependsOnParentAndBytes) {
  const char data[] = "abc";
  const Digest128 a = DigestBytes(data, 3);
  EXPECT_EQ(DigestChain(a, data, 3), DigestChain(a, data, 3));
  EXPECT_NE(DigestChain(a, data, 3), DigestChain({}, data, 3));
  EXPECT_NE(DigestChain(a, data, 3), DigestChain(a, data, 2));
}

TEST(Mailbox, RefusesBeyondItsBoundAndAfterClose) {
  Mailbox<int> mailbox(2);
  EXPECT_TRUE(mailbox.Post(1));
  EXPECT_TRUE(mailbox.Post(2));
  EXPECT_FALSE(mailbox.Post(3));
  EXPECT_EQ(mailbox.Take().size(), 2u);
  mailbox.Close();
  EXPECT_FALSE(mailbox.Post(4));
  mailbox.Wait(kNever);
}

TEST(Mailbox, WakesItsOwner) {
  Mailbox<int> mailbox(2);
  std::thread poster([&] { ASSERT_TRUE(mailbox.Post(5)); });
  mailbox.Wait(60 * kNsPerSecond);
  poster.join();
  EXPECT_EQ(mailbox.Take().front(), 5);
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(ValidateSamplingParams({}, kVocab).ok()); }

TEST(SamplingParams, RefusesNegativeNanAndOutOfRangeByFieldName) {
  const auto refused = [](auto change, std::string_view field) {
    SamplingParams params;
    change(params);
    const absl::Status status = ValidateSamplingParams(params, kVocab);
    return !status.ok() && std::string(status.message()).starts_with(field);
  };
  EXPECT_TRUE(refused([](auto& p) { p.temperature = -1; }, "temperature"));
  EXPECT_TRUE(refused([](auto& p) { p.temperature = NAN; }, "temperature"));
  EXPECT_TRUE(refused([](auto& p) { p.top_p = 0; }, "top_p"));
  EXPECT_TRUE(refused([](auto& p) { p.top_p = NAN; }, "top_p"));
  EXPECT_TRUE(refused([](auto& p) { p.min_p = 1.5; }, "min_p"));
  EXPECT_TRUE(refused([](auto& p) { p.top_k = -1; }, "top_k"));
  EXPECT_TRUE(refused([](auto& p) { p.repetition_penalty = 0; }, "repetition_penalty"));
  EXPECT_TRUE(refused([](auto& p) { p.frequency_penalty = 3; }, "frequency_penalty"));
  EXPECT_TRUE(refused([](auto& p) { p.presence_penalty = INFINITY; }, "presence_penalty"));
  EXPECT_TRUE(refused([](auto& p) { p.max_tokens = 0; }, "max_tokens"));
  EXPECT_TRUE(refused([](auto& p) { p.min_tokens = p.max_tokens + 1; }, "min_tokens"));
  EXPECT_TRUE(refused([](auto& p) { p.logprobs = kMaxLogprobs + 1; }, "logprobs"));
  EXPECT_TRUE(refused([](auto& p) { p.stop_token_ids = {kVocab}; }, "stop_token_ids"));
  EXPECT_TRUE(refused([](auto& p) { p.stop_token_ids.assign(kMaxStopTokenIds + 1, 1); }, "stop_token_ids"));
  EXPECT_TRUE(refused([](auto& p) { p.max_tokens = kMaxOutputTokens + 1; }, "max_tokens"));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias.resize(kMaxLogitBiases + 1); }, "logit_bias: at most 1024 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{kVocab, 1}}; }, "logit_bias: token 100 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{-1, 1}}; }, "logit_bias: token -1 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{3, 100.5f}}; }, "logit_bias: that of token 3 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{3, -INFINITY}}; }, "logit_bias: that of token 3 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{3, NAN}}; }, "logit_bias: that of token 3 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{3, 1}, {4, 1}, {4, 1}}; }, "logit_bias: token 4 "));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{4, 1}, {3, 1}}; }, "logit_bias: token 3 "));
  EXPECT_TRUE(refused([](auto& p) { p.top_k = kMaxTopK + 1; }, "top_k"));
}

TEST(SamplingParams, BesideAGrammarNothingElseSaysWhenTheOutputEnds) {
  SamplingParams params;
  params.grammar = {.kind = GrammarKind::kRegex, .text = std::string(kMaxGrammarBytes, 'a')};
  EXPECT_EQ(ValidateSamplingParams(params, kVocab), absl::OkStatus());
  SamplingParams refused = params;
  refused.grammar.text += "a";
  EXPECT_EQ(ValidateSamplingParams(refused, kVocab).message(), "grammar: at most 65536 bytes, not 65537");
  refused = params;
  refused.ignore_eos = true;
  EXPECT_EQ(ValidateSamplingParams(refused, kVocab).message(),
            "ignore_eos: must be left out beside a grammar, which says when the output may end");
  refused = params;
  refused.min_tokens = 1;
  EXPECT_EQ(ValidateSamplingParams(refused, kVocab).message(),
            "min_tokens: must be left out beside a grammar, which says when the output may end");
}

TEST(OutputGrammar, AChoiceIsAListInJson) {
  EXPECT_EQ(ChoiceGrammar({"a\"b", "é"}), (OutputGrammar{.kind = GrammarKind::kChoice, .text = R"(["a\"b","é"])"}));
}

TEST(SamplingParams, TakesEachValueAtItsLimit) {
  SamplingParams params;
  params.top_k = kMaxTopK;
  params.max_tokens = kMaxOutputTokens;
  params.logprobs = kMaxLogprobs;
  params.stop_token_ids.assign(kMaxStopTokenIds, kVocab - 1);
  params.logit_bias = {{0, kMaxLogitBias}, {kVocab - 1, -kMaxLogitBias}};
  EXPECT_EQ(ValidateSamplingParams(params, kVocab), absl::OkStatus());
  params.logit_bias.clear();
  for (int32_t token = 0; token < static_cast<int32_t>(kMaxLogitBiases); ++token)
    params.logit_bias.push_back({token, 1});
  EXPECT_EQ(ValidateSamplingParams(params, kMaxLogitBiases), absl::OkStatus());
}

}  // namespace
}  // namespace baton
