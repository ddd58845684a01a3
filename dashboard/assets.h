// The files of the dashboard. The page works under any path, because it names its files and its events by relative
// addresses.
#ifndef BATON_DASHBOARD_ASSETS_H_
#define BATON_DASHBOARD_ASSETS_H_

#include <span>

#include "common/web_asset.h"

namespace baton::dashboard {

// In the order of their paths. They live as long as the process.
std::span<const WebAsset> Assets();

}  // namespace baton::dashboard

#endif  // BATON_DASHBOARD_ASSETS_H_
