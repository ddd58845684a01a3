#include "tests/ptx/types.h"

#include <utility>

namespace baton::ptx {

Type TypeOf(std::string_view name) {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"pred", Type::kPred}, {"b8", Type::kB8},       {"b16", Type::kB16},   {"b32", Type::kB32},
      {"b64", Type::kB64},   {"u8", Type::kU8},       {"u16", Type::kU16},   {"u32", Type::kU32},
      {"u64", Type::kU64},   {"s8", Type::kS8},       {"s16", Type::kS16},   {"s32", Type::kS32},
      {"s64", Type::kS64},   {"f16", Type::kF16},     {"bf16", Type::kBf16}, {"f32", Type::kF32},
      {"f64", Type::kF64},   {"f16x2", Type::kF16x2}, {"tf32", Type::kTf32}, {"bf16x2", Type::kBf16x2},
  };
  for (const auto& [text, type] : kTypes) {
    if (text == name) return type;
  }
  return Type::kNone;
}

}  // namespace baton::ptx
