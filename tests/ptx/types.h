// The fundamental types of PTX.
#ifndef BATON_TESTS_PTX_TYPES_H_
#define BATON_TESTS_PTX_TYPES_H_

#include <cstdint>
#include <string_view>

namespace baton::ptx {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kF16x2,
  kBf16x2,
  kTf32,
};

// kNone for what is not the name of a type ("u32", "bf16x2", ...).
Type TypeOf(std::string_view name);

// 0 for a predicate.
constexpr int BytesOf(Type type) {
  switch (type) {
    case Type::kNone:
    case Type::kPred:
      return 0;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBf16:
      return 2;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
      return 8;
    default:
      return 4;
  }
}

constexpr bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }

}  // namespace baton::ptx

#endif  // BATON_TESTS_PTX_TYPES_H_
