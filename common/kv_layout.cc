#include "common/kv_layout.h"

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

std::string KvLayout::ToString() const {
  return absl::StrFormat("%dx%dx%d-%s-v%d", layers, kv_heads, head_dim, ToAbsl(KvDtypeName(dtype)), inner_format);
}

}  // namespace baton
