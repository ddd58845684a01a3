// The shape of one KV block in memory, and which blocks a sequence has. Both ends of a hand-off compare layouts before
// a byte moves.
//
// A pool is block-major: [block][layer of the group][K|V][kv_head][...] with kBlockTokens tokens in a block. One block
// is therefore one contiguous range of `block_bytes()`, and neighbouring blocks coalesce. The engine's kernels decide
// what lies inside a head's part; `inner_format` names their choice.
//
// A full layer sees every token, a sliding layer only the last `window` tokens. The layers of a model are divided into
// groups of equal size, each full or sliding, and a block holds tokens of one group. So a sequence can return the
// blocks that no window reaches any more. A model without sliding layers has one group with all its layers.
#ifndef BATON_COMMON_KV_LAYOUT_H_
#define BATON_COMMON_KV_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// Tokens in a block, in every pool and on every kind of worker.
inline constexpr int kBlockTokens = 16;

// Index of a block inside one pool.
using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

inline constexpr int BlocksForTokens(int64_t tokens) {
  return static_cast<int>((tokens + kBlockTokens - 1) / kBlockTokens);
}

// The groups of layers, full ones first, and which blocks of a sequence each of them keeps. In every group, the block
// of index i holds the kBlockTokens tokens that begin at i * kBlockTokens.
struct KvGroups {
  int32_t full = 1;
  int32_t sliding = 0;
  // How many tokens a row of a sliding layer sees, its own among them. Positive when there is a sliding group.
  int32_t window = 0;

  int32_t count() const { return full + sliding; }
  // Index of the first block of a sliding group that the row at `position` sees. No later row sees an earlier block.
  int32_t FirstSeen(int64_t position) const {
    return static_cast<int32_t>(std::max<int64_t>(position - window + 1, 0) / kBlockTokens);
  }
  // The hand-off of a prompt lists blocks by index: at each index first those of the full groups and then, if the row
  // after the prompt sees them, those of the sliding groups. Returns how many of them have an index below `end`.
  int32_t HandedOverBefore(int32_t end, int64_t prompt_tokens) const {
    return full * end + sliding * std::max(end - FirstSeen(prompt_tokens), 0);
  }
  int32_t HandedOver(int64_t prompt_tokens) const {
    return HandedOverBefore(BlocksForTokens(prompt_tokens), prompt_tokens);
  }
  // The group of the block that has this place in that list.
  int32_t GroupOf(int32_t place, int64_t prompt_tokens) const {
    const int32_t full_alone = sliding == 0 ? 0 : full * FirstSeen(prompt_tokens);
    return place < full_alone ? place % full : (place - full_alone) % count();
  }
  // The most blocks of one sliding group that a sequence of `tokens` holds if a step computes at most `chunk_tokens` of
  // them.
  int32_t MostSlidingBlocks(int64_t tokens, int32_t chunk_tokens) const {
    return std::min(BlocksForTokens(tokens), BlocksForTokens(window - 1) + BlocksForTokens(chunk_tokens));
  }
  // The same for all groups together.
  int32_t MostBlocks(int64_t tokens, int32_t chunk_tokens) const {
    const int32_t slid = sliding == 0 ? 0 : sliding * MostSlidingBlocks(tokens, chunk_tokens);
    return full * BlocksForTokens(tokens) + slid;
  }
  friend bool operator==(const KvGroups&, const KvGroups&) = default;
};

enum class KvDtype : uint8_t { kBf16 = 0, kF32 = 1, kOpaque = 2, kInt8 = 3 };

std::string_view KvDtypeName(KvDtype dtype);

struct KvLayout {
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  KvDtype dtype = KvDtype::kBf16;
  // Version of the arrangement inside [kv_head], raised by the engine whenever it changes.
  uint32_t inner_format = 0;
  // How many tokens a sliding layer sees, and for each layer whether it slides; empty when none does.
  int32_t window = 0;
  std::vector<bool> sliding_layers = {};

  // The group of a layer, and the layer's index in that group.
  struct Place {
    int32_t group = 0;
    int32_t index = 0;
  };
  KvGroups groups() const;
  // How many layers a group has, and therefore a block.
  int32_t group_layers() const { return layers / groups().count(); }
  // The place of each layer.
  std::vector<Place> Places() const;

  // Bytes of K or V for one layer and head: values, for int8 also an f32 scale per token, padded to 64 bytes.
  size_t head_part_bytes() const {
    const size_t values = static_cast<size_t>(kBlockTokens) * static_cast<size_t>(head_dim);
    if (dtype == KvDtype::kInt8) {
      constexpr size_t kAlignment = 64;
      return (values + kBlockTokens * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    }
    return values * (dtype == KvDtype::kF32 ? 4 : dtype == KvDtype::kBf16 ? 2 : 1);
  }
  // What one layer takes of a block.
  size_t layer_bytes() const { return 2 * static_cast<size_t>(kv_heads) * head_part_bytes(); }
  size_t block_bytes() const { return static_cast<size_t>(group_layers()) * layer_bytes(); }
  // For each group, how many bytes at the beginning of a block belong to the first `computed` layers of the model.
  std::vector<uint64_t> BytesOfLayers(int32_t computed) const;
  // What one token takes in the blocks of all groups together.
  size_t token_bytes() const { return static_cast<size_t>(groups().count()) * block_bytes() / kBlockTokens; }
  // What a token takes that no window reaches any more.
  size_t token_bytes_beyond_window() const { return static_cast<size_t>(groups().full) * block_bytes() / kBlockTokens; }
  // How many blocks a pool of this many bytes has.
  uint64_t BlocksIn(uint64_t bytes) const { return bytes / block_bytes(); }
  std::string ToString() const;
  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

}  // namespace baton

#endif  // BATON_COMMON_KV_LAYOUT_H_
