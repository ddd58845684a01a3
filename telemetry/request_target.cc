#include "telemetry/request_target.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "common/status.h"

namespace baton::telemetry {

std::optional<RequestTarget> ParseRequestTarget(std::string_view target) {
  RequestTarget parsed;
  constexpr std::string_view kScheme = "http://";
  if (absl::StartsWithIgnoreCase(ToAbsl(target), ToAbsl(kScheme))) {
    target.remove_prefix(kScheme.size());
    const size_t slash = std::min(target.find_first_of("/?"), target.size());
    parsed.authority = target.substr(0, slash);
    target.remove_prefix(slash);
    if (parsed.authority.empty()) return std::nullopt;
    if (target.empty()) target = "/";
  }
  if (target.empty() || target[0] != '/') return std::nullopt;
  const size_t question = std::min(target.find('?'), target.size());
  parsed.request.path = target.substr(0, question);
  parsed.request.query = target.substr(std::min(question + 1, target.size()));
  return parsed;
}

}  // namespace baton::telemetry
