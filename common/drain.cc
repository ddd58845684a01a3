#include "common/drain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {

absl::Status CutByDrain(const ChoiceKey& request, int64_t timeout_ms) {
  return absl::UnavailableError(absl::StrCat("request ", request.ToString(),
                                             " did not end within the drain time-out of ", timeout_ms,
                                             " ms and was cut: send it again"));
}

std::string DescribeCut(absl::Span<const ChoiceKey> cut, int64_t timeout_ms) {
  const absl::Span<const ChoiceKey> named = cut.first(std::min(cut.size(), kMaxNamedRequests));
  std::string text = absl::StrCat(
      "the drain time-out of ", timeout_ms, " ms is over: cut ", cut.size(), " request", cut.size() == 1 ? "" : "s",
      ": ", absl::StrJoin(named, ", ", [](std::string* out, const ChoiceKey& key) { *out += key.ToString(); }));
  if (cut.size() > named.size()) absl::StrAppend(&text, " and ", cut.size() - named.size(), " more");
  return text;
}

}  // namespace baton
