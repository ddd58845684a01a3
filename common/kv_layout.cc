#include "common/kv_layout.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"

namespace baton {

std::string_view KvDtypeName(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kBf16:
      return "bf16";
    case KvDtype::kF32:
      return "f32";
    case KvDtype::kOpaque:
      return "opaque";
    case KvDtype::kInt8:
      return "int8";
  }
  return "unknown";
}

KvGroups KvLayout::groups() const {
  const int32_t sliding = static_cast<int32_t>(std::count(sliding_layers.begin(), sliding_layers.end(), true));
  if (sliding == 0) return {};
  const int32_t size = std::gcd(layers - sliding, sliding);
  return {.full = (layers - sliding) / size, .sliding = sliding / size, .window = window};
}

// The full layers fill the full groups in order, the sliding layers the sliding ones.
std::vector<KvLayout::Place> KvLayout::Places() const {
  const KvGroups kinds = groups();
  const int32_t size = group_layers();
  std::vector<Place> places;
  int32_t ranks[2] = {};
  for (int32_t layer = 0; layer < layers; ++layer) {
    const bool slides = kinds.sliding > 0 && sliding_layers[static_cast<size_t>(layer)];
    const int32_t rank = ranks[slides]++;
    places.push_back({.group = rank / size + (slides ? kinds.full : 0), .index = rank % size});
  }
  return places;
}

std::vector<uint64_t> KvLayout::BytesOfLayers(int32_t computed) const {
  std::vector<uint64_t> bytes(static_cast<size_t>(groups().count()));
  const std::vector<Place> places = Places();
  for (int32_t layer = 0; layer < computed; ++layer) {
    bytes[static_cast<size_t>(places[static_cast<size_t>(layer)].group)] += layer_bytes();
  }
  return bytes;
}

std::string KvLayout::ToString() const {
  std::string text =
      absl::StrFormat("%dx%dx%d-%s-v%d", layers, kv_heads, head_dim, ToAbsl(KvDtypeName(dtype)), inner_format);
  if (groups().sliding == 0) return text;
  absl::StrAppend(&text, "-window", window, "-");
  for (const bool slides : sliding_layers) text.push_back(slides ? 's' : 'f');
  return text;
}

}  // namespace baton
