#include "engine/model/step_plan.h"

#include <algorithm>

#include "common/check.h"
#include "engine/kernels/kernel_table.h"

namespace baton::engine {
namespace {

int32_t OutputCount(const SequenceSlice& slice) {
  switch (slice.output_rows) {
    case OutputRows::kNone:
      return 0;
    case OutputRows::kLast:
      return 1;
    case OutputRows::kAll:
      return slice.row_count;
  }
  return 0;
}

}  // namespace

StepPlan::StepPlan(int max_rows, const KvGroups& kv_groups)
    : max_rows_(static_cast<size_t>(max_rows)), groups_(kv_groups) {
  rows.reserve(max_rows_);
  row_blocks.resize(max_rows_ * static_cast<size_t>(kv_groups.count()));
  tiles.reserve(max_rows_);
  output_rows.reserve(max_rows_);
}

void StepPlan::CheckSlice(const SequenceSlice& slice, int32_t context_length) const {
  const int32_t end = slice.first_position + slice.row_count;
  BATON_CHECK(slice.row_count > 0 && slice.first_position >= 0 && end <= context_length)
      << "position " << slice.first_position << " + " << slice.row_count;
  BATON_CHECK((groups_.count() - 1) * slice.group_stride + BlocksForTokens(end) <=
              static_cast<int>(slice.blocks.size()))
      << slice.blocks.size() << " blocks";
  for (int32_t group = groups_.full; group < groups_.count(); ++group) {
    for (int32_t i = groups_.FirstSeen(slice.first_position); i < BlocksForTokens(end); ++i) {
      BATON_CHECK(slice.blocks[static_cast<size_t>(group * slice.group_stride + i)] != kNoBlock)
          << "group " << group << ", block " << i << " of " << end << " positions";
    }
  }
}

void StepPlan::Fill(const StepBatch& batch, int32_t vocab_size, int32_t context_length) {
  BATON_CHECK(batch.tokens.size() <= max_rows_) << batch.tokens.size() << " rows";
  BATON_CHECK(batch.output_count >= 0 && static_cast<size_t>(batch.output_count) <= batch.tokens.size())
      << batch.output_count << " outputs";
  rows.assign(batch.tokens.size(), Row{});
  tiles.clear();
  output_rows.assign(static_cast<size_t>(batch.output_count), -1);
  int32_t next_row = 0;
  for (const SequenceSlice& slice : batch.slices) {
    BATON_CHECK(slice.first_row == next_row) << "slices must follow each other";
    CheckSlice(slice, context_length);
    next_row += slice.row_count;
    for (int32_t i = 0; i < slice.row_count; ++i) {
      const int32_t row = slice.first_row + i;
      const int32_t token = batch.tokens[static_cast<size_t>(row)];
      BATON_CHECK(token >= 0 && token < vocab_size) << "token " << token;
      const int32_t position = slice.first_position + i;
      rows[static_cast<size_t>(row)] = {token, position, position % kBlockTokens};
      for (int32_t group = 0; group < groups_.count(); ++group) {
        RowBlock(group, row) = slice.blocks[static_cast<size_t>(group * slice.group_stride + position / kBlockTokens)];
      }
    }
    for (int32_t i = 0; i < slice.row_count; i += kernels::kMaxQueryRows) {
      tiles.push_back({slice.first_row + i, std::min(slice.row_count - i, kernels::kMaxQueryRows),
                       slice.first_position + i, slice.blocks.data(), slice.group_stride});
    }
    const int32_t wanted = OutputCount(slice);
    for (int32_t i = 0; i < wanted; ++i) {
      output_rows.at(static_cast<size_t>(slice.first_output + i)) = slice.first_row + slice.row_count - wanted + i;
    }
  }
  BATON_CHECK(static_cast<size_t>(next_row) == rows.size()) << next_row << " rows in slices";
  for (const int32_t row : output_rows) BATON_CHECK(row >= 0) << "an output without a row";
}

}  // namespace baton::engine
