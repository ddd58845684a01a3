// The description of the HTTP port as an OpenAPI document. tests/e2e/test_openapi.py holds it to what is served.
#ifndef BATON_OPENAPI_ASSETS_H_
#define BATON_OPENAPI_ASSETS_H_

#include <span>

#include "common/web_asset.h"

namespace baton::openapi {

// The one file, "/openapi.json". It lives as long as the process.
std::span<const WebAsset> Assets();

}  // namespace baton::openapi

#endif  // BATON_OPENAPI_ASSETS_H_
