// The files of the web chat. The page works under any path, because it names its files and the API by relative
// addresses.
#ifndef BATON_WEBCHAT_ASSETS_H_
#define BATON_WEBCHAT_ASSETS_H_

#include <span>

#include "common/web_asset.h"

namespace baton::webchat {

// In the order of their paths. They live as long as the process.
std::span<const WebAsset> Assets();

}  // namespace baton::webchat

#endif  // BATON_WEBCHAT_ASSETS_H_
