#include "engine/prefix_hash.h"

#include <cstring>
#include <string>

#include "common/check.h"

namespace baton::engine {

Digest128 PrefixNames::Root(std::string_view tenant) const { return SipHash128(key_, tenant.data(), tenant.size()); }

Digest128 PrefixNames::Next(const Digest128& parent, absl::Span<const int32_t> tokens) const {
  BATON_CHECK(tokens.size() == kBlockTokens) << tokens.size();
  struct {
    uint64_t high;
    uint64_t low;
    int32_t tokens[kBlockTokens];
  } link = {parent.high, parent.low, {}};
  static_assert(sizeof(link) == 16 + 4 * kBlockTokens, "padding would be hashed");
  std::memcpy(link.tokens, tokens.data(), sizeof(link.tokens));
  return SipHash128(key_, &link, sizeof(link));
}

Digest128 PrefixNames::Mark(const Digest128& earlier, const KvOrigin& origin) const {
  const uint64_t link[] = {earlier.high, earlier.low, origin.incarnation.high, origin.incarnation.low};
  std::string bytes(sizeof(link), '\0');
  std::memcpy(bytes.data(), link, sizeof(link));
  bytes += origin.target;
  return SipHash128(key_, bytes.data(), bytes.size());
}

}  // namespace baton::engine
