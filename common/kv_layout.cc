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

// Layers of a kind go to its groups in order.
KvLayout::Place KvLayout::PlaceOf(int32_t layer) const {
  const KvGroups kinds = groups();
  if (kinds.sliding == 0) return {.group = 0, .index = layer};
  const bool slides = sliding_layers[static_cast<size_t>(layer)];
  const auto rank = static_cast<int32_t>(std::count(sliding_layers.begin(), sliding_layers.begin() + layer, slides));
  return {.group = rank / group_layers() + (slides ? kinds.full : 0), .index = rank % group_layers()};
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
