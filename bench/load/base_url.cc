#include "bench/load/base_url.h"

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

constexpr std::string_view kScheme = "http://";

}  // namespace

absl::StatusOr<BaseUrl> ParseBaseUrl(std::string_view url) {
  const absl::Status invalid =
      absl::InvalidArgumentError(absl::StrCat("not a URL such as http://127.0.0.1:8080/v1: ", std::string(url)));
  if (!url.starts_with(kScheme)) return invalid;
  url.remove_prefix(kScheme.size());
  const size_t slash = url.find('/');
  const std::string_view authority = url.substr(0, slash);
  const size_t colon = authority.rfind(':');
  BaseUrl base;
  base.host = authority.substr(0, colon);
  base.port = colon == std::string_view::npos ? "80" : authority.substr(colon + 1);
  if (slash != std::string_view::npos) base.path = url.substr(slash);
  while (base.path.ends_with('/')) base.path.pop_back();
  if (base.host.empty() || base.port.empty()) return invalid;
  return base;
}

}  // namespace baton::bench
