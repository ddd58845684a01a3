#include <cmath>
#include <thread>

#include "common/digest.h"
#include "common/ids.h"
#include "common/kv_layout.h"
#include "common/limits.h"
#include "common/mailbox.h"
#include "common/random.h"
#include "common/sampling_params.h"
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
}

}  // namespace
}  // namespace baton
