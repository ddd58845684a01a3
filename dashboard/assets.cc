#include "dashboard/assets.h"

#include <algorithm>

namespace baton::dashboard {

const Asset* FindAsset(std::string_view path) {
  const std::span<const Asset> assets = Assets();
  const auto found =
      std::find_if(assets.begin(), assets.end(), [path](const Asset& asset) { return asset.path == path; });
  return found == assets.end() ? nullptr : &*found;
}

}  // namespace baton::dashboard
