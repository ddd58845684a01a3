// A prompt whose reader hears of the first layers while the others are computed.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prefill_worker/prefill_core.h"
#include "worker/testing/test_worker.h"

namespace baton::prefill_worker {
namespace {

using testing::ElementsAre;
using testing::Pair;
using worker::TestWorker;

constexpr JobKey kKey = {.job = {.high = 1, .low = 1}, .attempt = 1};

class PrefillLayersTest : public ::testing::Test {
 protected:
  // A chunk has two blocks. What is announced as begun is copied at that moment.
  void Make(engine::FakeModelOptions model) {
    model.layer_by_layer = true;
    worker_ = std::make_unique<TestWorker>(worker::TestWorkerOptions{
        .pool_blocks = 24, .engine = {.chunk_tokens = 2 * kBlockTokens, .max_sequences = 4}, .model = model});
    core_ = std::make_unique<PrefillCore>(worker_->core, worker_->updates);
    worker_->core.MakeLoop();
    worker_->replies.on_begun = [this](const kvtransfer::BlockBegun& block) {
      begun_[block.index].push_back(block.bytes);
      copies_.push_back({block, Bytes(block)});
    };
  }
  std::vector<uint8_t> Bytes(const kvtransfer::BlockBegun& block) {
    const uint8_t* const begin = worker_->pool.memory().base + block.offset;
    return {begin, begin + block.bytes};
  }
  void Prefill(int32_t tokens, int32_t first_block = 0) {
    WorkerJob job{.key = kKey, .prompt = TestWorker::PromptOf(tokens)};
    job.sampling.max_tokens = 20;
    core_->OnPrefill(std::move(job), /*solo=*/false);
    worker_->OpenFetch(1, {.key = kKey, .first_block = first_block, .takes_begun = true});
  }
  // What was begun is as it was when it was announced, in the blocks that were announced as a whole.
  void ExpectNothingChanged() {
    for (const auto& [block, bytes] : copies_) {
      EXPECT_EQ(bytes, Bytes(block)) << "block " << block.index << " of " << block.bytes << " bytes";
      EXPECT_EQ(worker_->replies.offsets[1].at(block.index), block.offset);
    }
  }

  std::unique_ptr<TestWorker> worker_;
  std::unique_ptr<PrefillCore> core_;
  // How many bytes of each block were begun, in the order of the announcements.
  std::map<int32_t, std::vector<uint64_t>> begun_;
  std::vector<std::pair<kvtransfer::BlockBegun, std::vector<uint8_t>>> copies_;
};

TEST_F(PrefillLayersTest, TheReaderHearsOfEachLayerButTheLast) {
  Make({.full_layers = 4});
  Prefill(3 * kBlockTokens + 2);
  worker_->RunOnce();
  EXPECT_THAT(begun_, ElementsAre(Pair(0, ElementsAre(256, 512, 768)), Pair(1, ElementsAre(256, 512, 768))));
  EXPECT_TRUE(worker_->RunUntilIdle());
  EXPECT_THAT(begun_[3], ElementsAre(256, 512, 768)) << "the block that the prompt's end leaves half empty";
  EXPECT_THAT(worker_->replies.blocks[1], ElementsAre(0, 1, 2, 3));
  ExpectNothingChanged();
}

TEST_F(PrefillLayersTest, BlocksThatTheReaderHasAreNotBegun) {
  Make({.full_layers = 2});
  Prefill(3 * kBlockTokens, 1);
  EXPECT_TRUE(worker_->RunUntilIdle());
  EXPECT_THAT(begun_, ElementsAre(Pair(1, ElementsAre(256)), Pair(2, ElementsAre(256))));
  ExpectNothingChanged();
}

// Sliding layers come first: the groups are {4, 5}, {0, 1} and {2, 3}. The row behind the prompt sees token 45 and
// later ones. So what is handed over are the blocks 0 and 1 of the full group, then those of each group at the indices
// 2 and 3: places 2, 3, 4 and 5, 6, 7.
TEST_F(PrefillLayersTest, EveryGroupOfLayersHasItsOwnBeginning) {
  Make({.full_layers = 2, .sliding_layers = 4, .window = 20});
  Prefill(4 * kBlockTokens);
  EXPECT_TRUE(worker_->RunUntilIdle());
  EXPECT_EQ(worker_->replies.blocks[1].size(), 8u);
  std::vector<int32_t> order;
  for (const auto& [block, bytes] : copies_) order.push_back(block.index);
  EXPECT_THAT(order, ElementsAre(0, 1, 3, 6, 3, 6, 4, 7, 4, 7, 2, 5));
  EXPECT_THAT(begun_[2], ElementsAre(256)) << "its second layer is the last of all";
  EXPECT_THAT(begun_[3], ElementsAre(256, 512));
  ExpectNothingChanged();
}

TEST_F(PrefillLayersTest, AGroupOfOneLayerIsBegunAsAWhole) {
  Make({.full_layers = 1, .sliding_layers = 1, .window = 20});
  Prefill(2 * kBlockTokens);
  EXPECT_TRUE(worker_->RunUntilIdle());
  // Row 32 sees token 13 and later ones.
  EXPECT_THAT(begun_, ElementsAre(Pair(1, ElementsAre(256)), Pair(3, ElementsAre(256)))) << "the sliding layer's";
  ExpectNothingChanged();
}

TEST_F(PrefillLayersTest, AReaderOfAnOlderVersionHearsOfWholeBlocksAlone) {
  Make({.full_layers = 4});
  WorkerJob job{.key = kKey, .prompt = TestWorker::PromptOf(2 * kBlockTokens)};
  job.sampling.max_tokens = 20;
  core_->OnPrefill(std::move(job), /*solo=*/false);
  worker_->OpenFetch(1, kKey);
  EXPECT_TRUE(worker_->RunUntilIdle());
  EXPECT_THAT(worker_->replies.blocks[1], ElementsAre(0, 1));
  EXPECT_TRUE(begun_.empty());
}

}  // namespace
}  // namespace baton::prefill_worker
