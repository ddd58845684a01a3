// Names of full KV blocks: a chain of keyed hashes over the tenant, all tokens up to the block's end, and the group of
// layers. Because of row independence equal names mean equal bytes, so the cache compares no tokens.
//
// Every worker draws a key of its own. Clients choose the tokens; without the key nobody can make two prompts whose
// blocks have the same name. Names therefore mean something to their own worker only, and never leave it.
//
// Equal bytes are certain only of what this engine has computed itself. The name of a block that other workers had a
// part in is mixed with the mark of these workers, so only a sequence that trusts the same workers finds it.
#ifndef BATON_ENGINE_PREFIX_HASH_H_
#define BATON_ENGINE_PREFIX_HASH_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "common/digest.h"
#include "common/kv_layout.h"
#include "common/kv_origin.h"
#include "common/sip_hash.h"

namespace baton::engine {

class PrefixNames {
 public:
  explicit PrefixNames(const SipKey& key) : key_(key) {}

  // The beginning of a tenant's chains. Blocks of different tenants never share a name.
  Digest128 Root(std::string_view tenant) const;

  // Name of group 0's block that follows `parent` and holds exactly kBlockTokens tokens. Allocates nothing.
  Digest128 Next(const Digest128& parent, absl::Span<const int32_t> tokens) const;

  // The mark of KV that came through the origins of `earlier`, and then from `origin`. The mark of KV that this engine
  // has computed is zero.
  Digest128 Mark(const Digest128& earlier, const KvOrigin& origin) const;

 private:
  SipKey key_;
};

// Name of a block of the same tokens that came from elsewhere.
inline Digest128 MarkedName(const Digest128& name, const Digest128& mark) {
  return {.high = name.high ^ mark.high, .low = name.low ^ mark.low};
}

// Name of another group's block of the same tokens.
inline Digest128 NameInGroup(const Digest128& name, int32_t group) {
  return {.high = name.high, .low = name.low + static_cast<uint64_t>(group)};
}

}  // namespace baton::engine

#endif  // BATON_ENGINE_PREFIX_HASH_H_
