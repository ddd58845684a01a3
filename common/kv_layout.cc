#include "common/kv_layout.h"

#include "absl/strings/str_format.h"

namespace baton {

std::string KvLayout::ToString() const {
  const char* name = dtype == KvDtype::kF32 ? "f32" : dtype == KvDtype::kBf16 ? "bf16" : "opaque";
  return absl::StrFormat("%dx%dx%d-%s-v%d", layers, kv_heads, head_dim, name, inner_format);
}

}  // namespace baton
