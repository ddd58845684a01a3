#include "gateway/web_chat.h"

#include <algorithm>
#include <memory>
#include <string>

#include "common/web_asset.h"
#include "webchat/assets.h"

namespace baton::gateway {

bool IsWebChatPath(std::string_view path) {
  const auto assets = webchat::Assets();
  return std::any_of(assets.begin(), assets.end(), [path](const WebAsset& asset) { return asset.path == path; });
}

void AddWebChatRoutes(HttpServer& server) {
  for (const WebAsset& asset : webchat::Assets()) {
    server.AddRoute("GET", std::string(asset.path), [&asset](const std::shared_ptr<HttpExchange>& exchange) {
      exchange->Respond({.content_type = std::string(asset.content_type),
                         .body = std::string(asset.bytes),
                         .headers = {{"Content-Security-Policy", kContentSecurityPolicy}}});
    });
  }
}

}  // namespace baton::gateway
