#include "router/fingerprints.h"

#include <algorithm>
#include <cstddef>

namespace baton::router {

std::string_view WeightsOf(std::string_view fingerprint) {
  for (size_t begin = 0; begin < fingerprint.size();) {
    const size_t end = std::min(fingerprint.find('/', begin), fingerprint.size());
    const std::string_view part = fingerprint.substr(begin, end - begin);
    if (part.starts_with("weights:")) return part;
    begin = end + 1;
  }
  return {};
}

bool HaveSameWeights(std::string_view a, std::string_view b) {
  const std::string_view weights = WeightsOf(a);
  return !weights.empty() && weights == WeightsOf(b);
}

}  // namespace baton::router
