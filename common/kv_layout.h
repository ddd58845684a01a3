// The shape of one KV block in memory. Both ends of a hand-off compare layouts before a byte moves.
//
// A pool is block-major: [block][layer][K|V][kv_head][...], `block_tokens` tokens a block, so that one block is one
// contiguous range of `block_bytes()` and neighbouring blocks coalesce. What lies inside a head's part belongs to the
// engine's kernels and is named by `inner_format`.
#ifndef BATON_COMMON_KV_LAYOUT_H_
#define BATON_COMMON_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton {

// Tokens in a block, in every pool and on every kind of worker.
inline constexpr int kBlockTokens = 16;

// Index of a block inside one pool.
using BlockId = int32_t;

enum class KvDtype : uint8_t { kBf16 = 0, kF32 = 1, kOpaque = 2, kInt8 = 3 };

std::string_view KvDtypeName(KvDtype dtype);

struct KvLayout {
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  KvDtype dtype = KvDtype::kBf16;
  // Version of the arrangement inside [kv_head], raised by the engine whenever it changes.
  uint32_t inner_format = 0;

  // K, or V, of one layer and head: the values, and behind those of int8 an f32 scale a token, padded to 64 bytes.
  size_t head_part_bytes() const {
    const size_t values = static_cast<size_t>(kBlockTokens) * static_cast<size_t>(head_dim);
    if (dtype == KvDtype::kInt8) {
      constexpr size_t kAlignment = 64;
      return (values + kBlockTokens * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    }
    return values * (dtype == KvDtype::kF32 ? 4 : dtype == KvDtype::kBf16 ? 2 : 1);
  }
  size_t block_bytes() const {
    return static_cast<size_t>(layers) * 2 * static_cast<size_t>(kv_heads) * head_part_bytes();
  }
  // A token's share of a block.
  size_t token_bytes() const { return block_bytes() / kBlockTokens; }
  std::string ToString() const;
  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

inline int BlocksForTokens(int64_t tokens) { return static_cast<int>((tokens + kBlockTokens - 1) / kBlockTokens); }

}  // namespace baton

#endif  // BATON_COMMON_KV_LAYOUT_H_
