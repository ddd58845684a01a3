#include "gateway/api_document.h"

#include <memory>
#include <string>

#include "common/web_asset.h"
#include "openapi/assets.h"

namespace baton::gateway {
namespace {

const WebAsset& ApiDocument() { return openapi::Assets().front(); }

}  // namespace

bool IsApiDocumentPath(std::string_view path) { return path == ApiDocument().path; }

void AddApiDocumentRoute(HttpServer& server) {
  const WebAsset& document = ApiDocument();
  server.AddRoute("GET", std::string(document.path), [&document](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.content_type = std::string(document.content_type), .body = std::string(document.bytes)});
  });
}

}  // namespace baton::gateway
