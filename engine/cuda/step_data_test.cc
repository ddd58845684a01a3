#include "engine/cuda/step_data.h"

#include <cmath>
#include <optional>
#include <set>

#include "engine/cuda/testing/fake_driver.h"
#include "gtest/gtest.h"

namespace baton::engine::cuda {
namespace {

constexpr BlockId kSpare = 500;
constexpr int32_t kStride = 40;

class StepDataTest : public testing::Test {
 protected:
  StepDataTest() {
    config_.heads = 8;
    config_.kv_heads = 2;
    config_.head_dim = 32;
    config_.context_length = 1024;
    config_.sliding_window = 100;
    config_.sliding_layers = {true, false};
    device_ = *Device::Open(FakeDriverApi(), 0, {});
    stream_.emplace(*Stream::Create(*device_));
    for (int32_t i = 0; i < 2 * kStride; ++i) blocks_.push_back(100 + i);
  }

  // Rows [first_position, first_position + rows) of one sequence more.
  void Add(int32_t first_position, int32_t rows) {
    SequenceSlice slice{.first_row = static_cast<int32_t>(tokens_.size()),
                        .row_count = rows,
                        .first_position = first_position,
                        .blocks = blocks_,
                        .group_stride = stride_,
                        .output_rows = OutputRows::kLast,
                        .first_output = static_cast<int32_t>(slices_.size())};
    slices_.push_back(slice);
    for (int32_t i = 0; i < rows; ++i) tokens_.push_back(7 + i);
  }

  void Fill(StepData& data, int rows) {
    StepPlan plan(64, groups_);
    const StepBatch batch{.tokens = tokens_,
                          .slices = slices_,
                          .output_count = static_cast<int32_t>(slices_.size()),
                          .token_sources = token_sources_};
    plan.Fill(batch, 100, config_.context_length);
    data.Fill(plan, batch, rows, kSpare);
    data.Upload(*stream_);
  }

  modelfile::ModelConfig config_;
  const KvGroups groups_{.full = 1, .sliding = 1, .window = 100};
  std::unique_ptr<Device> device_;
  std::optional<Stream> stream_;
  std::vector<BlockId> blocks_;
  int32_t stride_ = kStride;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> token_sources_;
  std::vector<SequenceSlice> slices_;
};

TEST_F(StepDataTest, TilesHaveTheRowsThatFitBesideTheHeadsOfOneKvHead) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 64, .slices = 64});
  ASSERT_TRUE(data.ok()) << data.status();
  Add(250, 10);
  Add(3, 1);
  Fill(*data, 11);
  EXPECT_EQ(data->tiles().small, 4);
  EXPECT_EQ(data->tiles().alone, 1);
  EXPECT_EQ(data->tiles().large, 1);
  EXPECT_EQ(data->splits(), 2);
  const QueryTile* const tiles = data->query_tiles();
  const int32_t rows[] = {1, 4, 4, 2, 10}, positions[] = {3, 250, 254, 258, 250}, first_rows[] = {10, 0, 4, 8, 0};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(tiles[i].row_count, rows[i]);
    EXPECT_EQ(tiles[i].first_position, positions[i]);
    EXPECT_EQ(tiles[i].first_row, first_rows[i]);
  }
  // 260 tokens have 17 blocks in each group.
  EXPECT_EQ(tiles[1].group_stride, 17);
  EXPECT_EQ(tiles[4].group_stride, 17);
  EXPECT_EQ(tiles[0].first_block, 34);
  EXPECT_EQ(data->blocks()[16], 116);
  EXPECT_EQ(data->blocks()[17], 100 + kStride);
  EXPECT_EQ(data->blocks()[35], 100 + kStride);
  EXPECT_EQ(data->row_blocks(1)[0], 100 + kStride + 250 / kBlockTokens);
  EXPECT_EQ(data->slots()[9], 259 % kBlockTokens);
  EXPECT_EQ(data->output_rows()[0], 9);
  EXPECT_EQ(data->output_rows()[1], 10);
}

TEST_F(StepDataTest, LongSlicesHaveLargeTilesBesideTheSmallOnesAndShortOnesHaveNone) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 64, .slices = 64});
  ASSERT_TRUE(data.ok()) << data.status();
  Add(7, 37);
  Add(60, 4);
  Add(0, 5);
  Fill(*data, 46);
  EXPECT_EQ(data->tiles().alone, 1);
  EXPECT_EQ(data->tiles().small, 13);
  EXPECT_EQ(data->tiles().large, 4);
  const QueryTile* const large = data->query_tiles() + 13;
  const int32_t rows[] = {16, 16, 5, 5}, positions[] = {7, 23, 39, 0}, first_rows[] = {0, 16, 32, 41};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(large[i].row_count, rows[i]);
    EXPECT_EQ(large[i].first_position, positions[i]);
    EXPECT_EQ(large[i].first_row, first_rows[i]);
  }
}

TEST_F(StepDataTest, RowsThatFillUpAreSequencesOfTheirOwnAndNoTwoWriteToOnePlace) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 64, .slices = 64});
  ASSERT_TRUE(data.ok()) << data.status();
  for (int i = 0; i < 33; ++i) Add(i, 1);
  Fill(*data, 64);
  EXPECT_EQ(data->tiles().small, 64);
  EXPECT_EQ(data->tiles().alone, 64);
  EXPECT_EQ(data->tiles().large, 0);
  std::set<std::pair<int32_t, int32_t>> places;
  for (int row = 33; row < 64; ++row) {
    EXPECT_EQ(data->positions()[row], 0);
    EXPECT_EQ(data->output_rows()[row], row);
    const QueryTile& tile = data->query_tiles()[row];
    EXPECT_EQ(tile.first_row, row);
    for (int group = 0; group < 2; ++group) {
      const int32_t block = data->row_blocks(group)[row];
      EXPECT_GE(block, kSpare);
      EXPECT_LT(block, kSpare + 8);
      EXPECT_EQ(data->blocks()[tile.first_block + group * tile.group_stride], block);
    }
    places.insert({data->row_blocks(0)[row], data->slots()[row]});
  }
  EXPECT_EQ(places.size(), 31u);
}

TEST_F(StepDataTest, RotatesByThePositionAndBySlidingLayersBase) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 64, .slices = 64});
  ASSERT_TRUE(data.ok()) << data.status();
  Add(5, 1);
  Fill(*data, 1);
  // The first pair turns by one radian for each position.
  for (const bool slides : {false, true}) {
    EXPECT_FLOAT_EQ(data->rotation(slides)[0], std::cos(5.0f));
    EXPECT_FLOAT_EQ(data->rotation(slides)[1], std::sin(5.0f));
  }
}

TEST_F(StepDataTest, ARowSaysWhichOutputOfTheStepBeforeIsItsToken) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 64, .slices = 64});
  ASSERT_TRUE(data.ok()) << data.status();
  for (int i = 0; i < 3; ++i) Add(5, 1);
  token_sources_ = {2, -1, 0};
  Fill(*data, 4);
  EXPECT_EQ(data->tokens()[0], ~2);
  EXPECT_EQ(data->tokens()[1], 7);
  EXPECT_EQ(data->tokens()[2], ~0);
  EXPECT_EQ(data->tokens()[3], 0) << "a row that fills up";
}

TEST_F(StepDataTest, AStepIsFilledBesideTheUploadOfTheOneBefore) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 64, .slices = 64});
  ASSERT_TRUE(data.ok()) << data.status();
  Add(5, 1);
  for (int i = 0; i < 3; ++i) Fill(*data, 1);
  const std::vector<const void*>& uploads = FakeDriver().uploads;
  ASSERT_EQ(uploads.size(), 3U);
  EXPECT_NE(uploads[0], uploads[1]);
  EXPECT_EQ(uploads[0], uploads[2]);
}

TEST_F(StepDataTest, HasRoomForTheLongestBlockListsFromTheStart) {
  config_.context_length = 1 << 20;
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 8, .slices = 2});
  ASSERT_TRUE(data.ok()) << data.status();
  constexpr int32_t kLongest = 1 << 16;
  blocks_.assign(2 * kLongest, 9);
  stride_ = kLongest;
  const FakeDriverState before = FakeDriver();
  Add((1 << 20) - 1, 1);
  Add((1 << 20) - 5, 5);
  // Two more rows fill up.
  Fill(*data, 8);
  EXPECT_EQ(data->blocks()[4 * kLongest - 1], 9);
  EXPECT_EQ(data->blocks()[4 * kLongest], kSpare);
  EXPECT_EQ(data->blocks()[4 * kLongest + 3], kSpare);
  EXPECT_EQ(FakeDriver().taken, before.taken);
  EXPECT_EQ(FakeDriver().waits, before.waits);
}

TEST_F(StepDataTest, AStepBeyondItsBoundsIsABug) {
  auto data = StepData::Create(*device_, config_, groups_, {.rows = 8, .slices = 1});
  ASSERT_TRUE(data.ok()) << data.status();
  Add(600, 1);
  Add(601, 1);
  EXPECT_DEATH(Fill(*data, 8), "8 rows and 2 slices with 76 blocks in a group are beyond the bounds of a step");
}

}  // namespace
}  // namespace baton::engine::cuda
