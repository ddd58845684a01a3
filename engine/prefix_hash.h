// Names of full KV blocks: a hash chain over the tenant, all tokens up to the block's end, and the group of layers.
// Because of row independence equal names mean equal bytes. So the same names serve prefix reuse, skipped transfers and
// routing by cache content.
#ifndef BATON_ENGINE_PREFIX_HASH_H_
#define BATON_ENGINE_PREFIX_HASH_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"

namespace baton::engine {

// The beginning of a tenant's chains. Blocks of different tenants never share a name.
Digest128 PrefixRoot(std::string_view tenant);

// Name of group 0's block that follows `parent` and holds exactly kBlockTokens tokens. Equals DigestChain; allocates
// nothing.
Digest128 NextBlockName(const Digest128& parent, absl::Span<const int32_t> tokens);

// Name of another group's block of the same tokens.
inline Digest128 NameInGroup(const Digest128& name, int32_t group) {
  return {.high = name.high, .low = name.low + static_cast<uint64_t>(group)};
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_PREFIX_HASH_H_
