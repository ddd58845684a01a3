#include "engine/cuda/kernels/testing/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/cuda/kernels/testing/reference.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/kernels/dispatch.h"

namespace baton::engine::cuda {
namespace {

constexpr Bf16 kNanBits = 0xffff;
constexpr int32_t kNoPage = -1;
// Blocks of the pool that the sequence does not have.
constexpr int kSpareBlocks = 3;

int Pages(int tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

}  // namespace

AttentionCase::AttentionCase(const AttentionShape& shape, RandomSource& random) : shape_(shape) {
  blocks_.resize(static_cast<size_t>(Pages(shape.tokens) + kSpareBlocks));
  std::iota(blocks_.begin(), blocks_.end(), 0);
  for (size_t i = blocks_.size(); i > 1; --i) std::swap(blocks_[i - 1], blocks_[random.Below(i)]);
  pool_.assign(blocks_.size() * block_elements(), kNanBits);
  const size_t width = static_cast<size_t>(shape.tokens * shape.head_dim);
  query_ = ToBf16(RandomFloats(random, width * static_cast<size_t>(shape.heads), shape.limit));
  keys_ = ToBf16(RandomFloats(random, width * static_cast<size_t>(shape.kv_heads), 2.0f));
  values_ = ToBf16(RandomFloats(random, width * static_cast<size_t>(shape.kv_heads), 2.0f));
  for (int t = 0; t < shape.tokens; ++t) {
    for (int h = 0; h < shape.kv_heads; ++h) {
      for (int d = 0; d < shape.head_dim; ++d) {
        const size_t at = static_cast<size_t>((t * shape.kv_heads + h) * shape.head_dim + d);
        pool_[Slot(t, h, d, false)] = keys_[at];
        pool_[Slot(t, h, d, true)] = values_[at];
      }
    }
  }
  Remember();
}

size_t AttentionCase::Slot(int token, int kv_head, int d, bool value) const {
  const size_t block = static_cast<size_t>(blocks_[static_cast<size_t>(token / kPageTokens)]);
  // Layer 1: after K and V of layer 0.
  const int head = 2 * shape_.kv_heads + (value ? shape_.kv_heads : 0) + kv_head;
  return block * block_elements() +
         static_cast<size_t>((head * kPageTokens + token % kPageTokens) * shape_.head_dim + d);
}

float AttentionCase::Query(int token, int head, int d) const {
  return ToFloat(query_[static_cast<size_t>((token * shape_.heads + head) * shape_.head_dim + d)]);
}

void AttentionCase::SetQuery(int token, int head, int d, Bf16 x) {
  query_[static_cast<size_t>((token * shape_.heads + head) * shape_.head_dim + d)] = x;
}

void AttentionCase::SetKey(int token, int kv_head, int d, Bf16 x) {
  keys_[static_cast<size_t>((token * shape_.kv_heads + kv_head) * shape_.head_dim + d)] = x;
  pool_[Slot(token, kv_head, d, false)] = x;
  Remember();
}

std::vector<float> AttentionCase::Partial(int position) {
  keeps_partial_ = true;
  Run(AttentionWay::kSplits, {{position, 1}});
  keeps_partial_ = false;
  return partial_;
}

void AttentionCase::Forget(int first, int last) {
  for (int t = 0; t < shape_.tokens; ++t) {
    if (t >= first && t <= last) continue;
    for (int h = 0; h < shape_.kv_heads; ++h) {
      for (int d = 0; d < shape_.head_dim; ++d)
        present_pool_[Slot(t, h, d, false)] = present_pool_[Slot(t, h, d, true)] = kNanBits;
    }
    const int page = t / kPageTokens;
    if ((page + 1) * kPageTokens <= first || page * kPageTokens > last) {
      table_[table_.size() - blocks_.size() + static_cast<size_t>(page)] = kNoPage;
    }
  }
}

void AttentionCase::Remember() {
  present_pool_ = pool_;
  // Blocks of other groups do not exist, so that one that is looked up is caught.
  table_.assign(blocks_.size() * static_cast<size_t>(shape_.groups - 1), kNoPage);
  table_.insert(table_.end(), blocks_.begin(), blocks_.end());
}

std::string AttentionCase::Name() const {
  return absl::StrCat("head_dim ", shape_.head_dim, " heads ", shape_.heads, "/", shape_.kv_heads, " tokens ",
                      shape_.tokens, " window ", shape_.window);
}

std::vector<Bf16> AttentionCase::Run(AttentionWay way, const std::vector<QueryRange>& ranges) {
  const bool in_splits = way == AttentionWay::kSplits;
  const int most = way == AttentionWay::kPrefill ? RowsOfPrefillTile(heads_per_kv()) : RowsOfTile(heads_per_kv());
  const int width = shape_.heads * shape_.head_dim;
  std::vector<Bf16> query;
  std::vector<int32_t> positions;
  std::vector<QueryTile> tiles;
  int splits = 1;
  for (const QueryRange& range : ranges) {
    for (int r = 0; r < range.rows; r += most) {
      const int rows = std::min(range.rows - r, most);
      tiles.push_back(
          {static_cast<int32_t>(positions.size()) + r, rows, range.first + r, 0, static_cast<int32_t>(blocks_.size())});
      splits = std::max(splits, SplitsOfTile(range.first + r, rows, shape_.window));
    }
    query.insert(query.end(), query_.begin() + range.first * width,
                 query_.begin() + (range.first + range.rows) * width);
    for (int r = 0; r < range.rows; ++r) positions.push_back(range.first + r);
  }
  const int rows = static_cast<int>(positions.size());
  const DeviceArray<Bf16> device_query(query), pool(present_pool_);
  const DeviceArray<int32_t> table(table_), device_positions(positions);
  const DeviceArray<QueryTile> device_tiles(tiles);
  const DeviceArray<Bf16> out(query.size());
  const DeviceArray<float> partial(static_cast<size_t>(rows * shape_.heads * splits * (shape_.head_dim + 2)));
  const AttentionParams params{.query = device_query.get(),
                               .pool = reinterpret_cast<const uint8_t*>(pool.get() + block_elements() / 2),
                               .blocks = table.get(),
                               .tiles = device_tiles.get(),
                               .out = out.get(),
                               .partial = in_splits ? partial.get() : nullptr,
                               .block_bytes = block_elements() * 2,
                               .row_positions = device_positions.get(),
                               .group = shape_.groups - 1,
                               .splits = splits,
                               .heads = shape_.heads,
                               .kv_heads = shape_.kv_heads,
                               .head_dim = shape_.head_dim,
                               .window = shape_.window,
                               .scale = shape_.scale};
  LaunchKernels(way, params, rows, static_cast<int>(tiles.size()));
  if (keeps_partial_) partial_ = partial.Values();
  return out.Values();
}

void AttentionCase::LaunchKernels(AttentionWay way, const AttentionParams& params, int rows, int tiles) {
  KernelDevice& device = KernelDevice::Get();
  const int kv_heads = shape_.kv_heads, head_dim = shape_.head_dim;
  switch (way) {
    case AttentionWay::kPrefill:
      return device.Run("attention_prefill", params, AttentionPrefillLaunch(tiles, kv_heads, head_dim));
    case AttentionWay::kDecode:
      return device.Run("attention_decode", params, AttentionDecodeLaunch(tiles, kv_heads, head_dim));
    case AttentionWay::kSplits:
      device.Run("attention_split", params, AttentionSplitLaunch(tiles, kv_heads, head_dim, params.splits));
      return device.Run("attention_fold", params, AttentionFoldLaunch(rows, shape_.heads));
  }
}

AttentionCase::Means AttentionCase::Softmax(int first, int rows) const {
  Means out;
  for (int row = first; row < first + rows; ++row) {
    const int begin = shape_.window == 0 ? 0 : std::max(0, row + 1 - shape_.window);
    for (int head = 0; head < shape_.heads; ++head) {
      const int kv_head = head / heads_per_kv();
      const auto at = [&](const std::vector<Bf16>& x, int t, int d) {
        return ToFloat(x[static_cast<size_t>((t * shape_.kv_heads + kv_head) * shape_.head_dim + d)]);
      };
      std::vector<double> p;
      for (int t = begin; t <= row; ++t) {
        double score = 0;
        for (int d = 0; d < shape_.head_dim; ++d) score += static_cast<double>(Query(row, head, d)) * at(keys_, t, d);
        p.push_back(score * shape_.scale);
      }
      const double max = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - max);
      for (int d = 0; d < shape_.head_dim; ++d) {
        double value = 0, magnitude = 0;
        for (int t = begin; t <= row; ++t) {
          const double weighted = p[static_cast<size_t>(t - begin)] * at(values_, t, d);
          value += weighted;
          magnitude += std::abs(weighted);
        }
        out.values.push_back(static_cast<float>(value / sum));
        out.magnitudes.push_back(static_cast<float>(magnitude / sum));
      }
    }
  }
  return out;
}

std::vector<float> AttentionCase::OnCpu(int first, int rows) const {
  const kernels::FpStateGuard fp_state;
  const size_t head_dim = static_cast<size_t>(shape_.head_dim), part = kPageTokens * head_dim;
  const size_t width = static_cast<size_t>(shape_.heads) * head_dim;
  const size_t pages = static_cast<size_t>(Pages(shape_.tokens));
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> out(static_cast<size_t>(rows) * width);
  kernels::AlignedBuffer pool(pages * 2 * part * 4), query(width * 4);
  kernels::AlignedBuffer scratch(kernels::AttentionScratchBytes(heads_per_kv(), shape_.head_dim));
  std::memset(pool.data(), 0, pool.bytes());
  for (int h = 0; h < shape_.kv_heads; ++h) {
    for (size_t i = 0; i < static_cast<size_t>(shape_.tokens) * head_dim; ++i) {
      const size_t t = i / head_dim, d = i % head_dim;
      const size_t from = (t * static_cast<size_t>(shape_.kv_heads) + static_cast<size_t>(h)) * head_dim + d;
      float* const page = reinterpret_cast<float*>(pool.data()) + t / kPageTokens * 2 * part;
      // K is [head_dim][tokens], V [tokens][head_dim].
      page[d * kPageTokens + t % kPageTokens] = ToFloat(keys_[from]);
      page[part + t % kPageTokens * head_dim + d] = ToFloat(values_[from]);
    }
    for (int row = 0; row < rows; ++row) {
      const int head = h * heads_per_kv();
      for (size_t i = 0; i < width; ++i) {
        reinterpret_cast<float*>(query.data())[i] =
            Query(first + row, static_cast<int>(i / head_dim), static_cast<int>(i % head_dim));
      }
      kernels::kScalarKernels.attention_f32(
          {.query_rows = 1,
           .first_position = first + row,
           .heads_per_kv = heads_per_kv(),
           .head_dim = shape_.head_dim,
           .window = shape_.window,
           .scale = shape_.scale,
           .query = query.data() + static_cast<size_t>(head) * head_dim * 4,
           .query_stride = width * 4,
           .keys = pool.data(),
           .values = pool.data() + part * 4,
           .block_stride = 2 * part * 4,
           .blocks = order.data(),
           .out = out.data() + static_cast<size_t>(row) * width + static_cast<size_t>(head) * head_dim,
           .out_stride = width,
           .scratch = scratch.data()});
    }
  }
  return out;
}

}  // namespace baton::engine::cuda
