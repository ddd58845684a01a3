#include "engine/cuda/step_data.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "engine/cuda/kernels/launch.h"
#include "engine/kernels/trigonometry.h"

namespace baton::engine::cuda {
namespace {

constexpr size_t kPartBytes = 256;

// Frequencies are 1 / (scaling_factor * theta^(2i / head_dim)), as on the CPU.
std::vector<float> InverseFrequencies(int head_dim, float theta, float scaling_factor) {
  std::vector<float> frequencies;
  frequencies.reserve(static_cast<size_t>(head_dim / 2));
  for (int i = 0; i < head_dim / 2; ++i) {
    frequencies.push_back(static_cast<float>(kernels::InversePower(theta, 2.0 * i / head_dim)) / scaling_factor);
  }
  return frequencies;
}

}  // namespace

StepData::StepData(const modelfile::ModelConfig& config, const KvGroups& groups)
    : head_dim_(config.head_dim),
      tile_rows_(RowsOfTile(config.heads / config.kv_heads)),
      large_tile_rows_(RowsOfPrefillTile(config.heads / config.kv_heads)),
      groups_(groups),
      inverse_frequency_(InverseFrequencies(config.head_dim, config.rope_theta, config.rope_scaling_factor)) {
  if (config.sliding_layers.empty()) return;
  sliding_inverse_frequency_ = InverseFrequencies(config.head_dim, config.sliding_rope_theta, 1.0f);
}

absl::StatusOr<StepData> StepData::Create(const Device& device, const modelfile::ModelConfig& config,
                                          const KvGroups& groups, const StepBounds& bounds) {
  StepData data(config, groups);
  const int64_t slice_blocks = int64_t{bounds.slices} * BlocksForTokens(config.context_length);
  const size_t bytes = data.PlacesOf(bounds.rows).blocks + data.BlockListBytes(slice_blocks, bounds.rows);
  for (PinnedBuffer& host : data.host_) {
    BATON_ASSIGN_OR_RETURN(host, PinnedBuffer::Allocate(device, bytes));
  }
  BATON_ASSIGN_OR_RETURN(data.device_buffer_, DeviceBuffer::Allocate(device, bytes));
  data.long_slices_.reserve(static_cast<size_t>(bounds.slices));
  return data;
}

StepData::Places StepData::PlacesOf(int rows) const {
  size_t next = 0;
  const auto place = [&](size_t bytes) {
    return std::exchange(next, next + (bytes + kPartBytes - 1) / kPartBytes * kPartBytes);
  };
  const size_t count = static_cast<size_t>(rows);
  const size_t column = count * sizeof(int32_t);
  const size_t rotation = count * static_cast<size_t>(head_dim_) * sizeof(float);
  Places places{};
  places.tokens = place(column);
  places.positions = place(column);
  places.slots = place(column);
  places.output_rows = place(column);
  places.sampling = place(count * sizeof(SampleRow));
  places.row_blocks = place(column * static_cast<size_t>(groups_.count()));
  // A row has at most a small tile and a large one of its own.
  places.tiles = place(2 * count * sizeof(QueryTile));
  places.rotation = place(rotation);
  places.sliding_rotation = place(sliding_inverse_frequency_.empty() ? 0 : rotation);
  places.blocks = next;
  return places;
}

size_t StepData::BlockListBytes(int64_t slice_blocks, int rows) const {
  return static_cast<size_t>(slice_blocks + rows) * static_cast<size_t>(groups_.count()) * sizeof(int32_t);
}

void StepData::Fill(const StepPlan& plan, const StepBatch& batch, int rows, BlockId spare) {
  turn_ = 1 - turn_;
  rows_ = rows;
  place_ = PlacesOf(rows);
  const int fills = rows - static_cast<int>(plan.rows.size());
  int64_t slice_blocks = 0;
  for (const SequenceSlice& slice : batch.slices) {
    slice_blocks += BlocksForTokens(slice.first_position + slice.row_count);
  }
  BATON_CHECK(place_.blocks + BlockListBytes(slice_blocks, fills) <= device_buffer_.bytes())
      << rows << " rows and " << batch.slices.size() << " slices with " << slice_blocks
      << " blocks in a group are beyond the bounds of a step";
  FillRows(plan, batch.token_sources, spare);
  FillTiles(plan, batch, spare);
  FillRotation(inverse_frequency_, place_.rotation, rows);
  if (!sliding_inverse_frequency_.empty()) FillRotation(sliding_inverse_frequency_, place_.sliding_rotation, rows);
}

// Rows that fill up have no token of their own: each is the first of a sequence, and no two write to one place.
void StepData::FillRows(const StepPlan& plan, absl::Span<const int32_t> token_sources, BlockId spare) {
  const int planned = static_cast<int>(plan.rows.size());
  for (int row = 0; row < rows_; ++row) {
    const bool fills = row >= planned;
    const int extra = row - planned;
    const StepPlan::Row& from = plan.rows[fills ? 0 : static_cast<size_t>(row)];
    Host<SampleRow>(place_.sampling)[row] = SampleRow{};
    Host<int32_t>(place_.tokens)[row] = fills ? 0 : from.token;
    Host<int32_t>(place_.positions)[row] = fills ? 0 : from.position;
    Host<int32_t>(place_.slots)[row] = fills ? extra % kBlockTokens : from.slot;
    for (int group = 0; group < groups_.count(); ++group) {
      Host<int32_t>(place_.row_blocks)[group * rows_ + row] =
          fills ? spare + extra / kBlockTokens : plan.RowBlock(group, row);
    }
    // A step that is filled up has as many outputs as rows.
    const size_t output = static_cast<size_t>(row);
    Host<int32_t>(place_.output_rows)[row] = output < plan.output_rows.size() ? plan.output_rows[output] : row;
  }
  for (size_t row = 0; row < token_sources.size(); ++row) {
    if (token_sources[row] >= 0) Host<int32_t>(place_.tokens)[row] = ~token_sources[row];
  }
}

void StepData::FillTiles(const StepPlan& plan, const StepBatch& batch, BlockId spare) {
  int32_t* const blocks = Host<int32_t>(place_.blocks);
  int32_t next_block = 0;
  int count = 0;
  splits_ = 1;
  long_slices_.clear();
  for (const SequenceSlice& slice : batch.slices) {
    const int tokens = slice.first_position + slice.row_count;
    splits_ = std::max(splits_, (tokens + kSplitTokens - 1) / kSplitTokens);
    if (slice.row_count > tile_rows_) {
      long_slices_.push_back({&slice, next_block});
    } else {
      count = AddTiles(count, slice, next_block, tile_rows_);
    }
    const int32_t stride = BlocksForTokens(tokens);
    for (int group = 0; group < groups_.count(); ++group) {
      std::memcpy(blocks + next_block, slice.blocks.data() + static_cast<ptrdiff_t>(group) * slice.group_stride,
                  static_cast<size_t>(stride) * sizeof(int32_t));
      next_block += stride;
    }
  }
  for (int row = static_cast<int>(plan.rows.size()); row < rows_; ++row) {
    const SequenceSlice slice{.first_row = row, .row_count = 1, .first_position = 0};
    count = AddTiles(count, slice, next_block, tile_rows_);
    const BlockId block = spare + (row - static_cast<int>(plan.rows.size())) / kBlockTokens;
    for (int group = 0; group < groups_.count(); ++group) blocks[next_block++] = block;
  }
  used_ = place_.blocks + static_cast<size_t>(next_block) * sizeof(int32_t);
  tiles_.alone = count;
  for (const LongSlice& each : long_slices_) count = AddTiles(count, *each.slice, each.first_block, tile_rows_);
  tiles_.small = count;
  for (const LongSlice& each : long_slices_) count = AddTiles(count, *each.slice, each.first_block, large_tile_rows_);
  tiles_.large = count - tiles_.small;
}

int StepData::AddTiles(int count, const SequenceSlice& slice, int32_t first_block, int rows) const {
  for (int32_t i = 0; i < slice.row_count; i += rows) {
    Host<QueryTile>(place_.tiles)[count++] = {.first_row = slice.first_row + i,
                                              .row_count = std::min(slice.row_count - i, rows),
                                              .first_position = slice.first_position + i,
                                              .first_block = first_block,
                                              .group_stride = BlocksForTokens(slice.first_position + slice.row_count)};
  }
  return count;
}

void StepData::FillRotation(const std::vector<float>& inverse_frequency, size_t place, int rows) const {
  float* to = Host<float>(place);
  for (int row = 0; row < rows; ++row) {
    const float position = static_cast<float>(Host<int32_t>(place_.positions)[row]);
    for (const float frequency : inverse_frequency) {
      // The angle is rounded to f32, as transformers does.
      const kernels::SinCos angle = kernels::SineCosine(frequency * position);
      *to++ = static_cast<float>(angle.cosine);
      *to++ = static_cast<float>(angle.sine);
    }
  }
}

}  // namespace baton::engine::cuda
