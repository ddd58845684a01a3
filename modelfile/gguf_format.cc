#include "modelfile/gguf_format.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"

namespace baton::modelfile {
namespace {

// By ggml's number. No name: ggml does not use the number, or no longer. A block of 32 elements has, in Q8_0, an fp16
// scale and 32 int8; in Q4_0 an fp16 scale and 32 nibbles, to which Q4_1 adds an fp16 minimum and Q5_0 adds 32 fifth
// bits. A block of 256 elements has, in Q4_K and Q5_K, an fp16 scale and minimum, 8 factors of 6 bits for each of these
// in 12 bytes, in Q5_K the fifth bits, and nibbles; in Q6_K nibbles, the upper 2 bits, 16 int8 factors and an fp16
// scale. Baton does not compute with the types that are not in kRunTypes, so only the sizes of their blocks matter.
constexpr std::array<GgmlType, 40> kGgmlTypes = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {},
    {},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q8_1", 32, 36},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"Q8_K", 256, 292},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ3_XXS", 256, 98},
    {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18},
    {"IQ3_S", 256, 110},
    {"IQ2_S", 256, 82},
    {"IQ4_XS", 256, 136},
    {"I8", 1, 1},
    {"I16", 1, 2},
    {"I32", 1, 4},
    {"I64", 1, 8},
    {"F64", 1, 8},
    {"IQ1_M", 256, 56},
    {"BF16", 1, 2},
    {},
    {},
    {},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {},
    {},
    {},
    {"MXFP4", 32, 17},
}};

// ggml's number of each TensorType, up to the last that it has.
constexpr std::array<uint32_t, 10> kRunTypes = {0, 1, 30, 8, 2, 3, 6, 12, 13, 14};

// By the name that safetensors give it. ggml has no such type.
constexpr GgmlType kF8E4M3 = {"F8_E4M3", 1, 1};

const GgmlType& Facts(TensorType type) {
  return type == TensorType::kF8E4M3 ? kF8E4M3 : kGgmlTypes[GgufTensorTypeId(type)];
}

}  // namespace

std::string_view TensorTypeName(TensorType type) { return Facts(type).name; }
int TensorBlockElements(TensorType type) { return Facts(type).block_elements; }
size_t TensorBlockBytes(TensorType type) { return Facts(type).block_bytes; }

uint32_t GgufTensorTypeId(TensorType type) {
  const auto index = static_cast<size_t>(type);
  BATON_CHECK(index < kRunTypes.size());
  return kRunTypes[index];
}

std::optional<TensorType> TensorTypeFromGguf(uint32_t id) {
  for (size_t i = 0; i < kRunTypes.size(); ++i) {
    if (kRunTypes[i] == id) return static_cast<TensorType>(i);
  }
  return std::nullopt;
}

const GgmlType* FindGgmlType(uint32_t id) {
  return id < kGgmlTypes.size() && !kGgmlTypes[id].name.empty() ? &kGgmlTypes[id] : nullptr;
}

std::string TensorTypesThatRun() {
  std::vector<std::string> names;
  names.reserve(kRunTypes.size());
  for (const uint32_t id : kRunTypes) names.emplace_back(kGgmlTypes[id].name);
  const std::string last = std::move(names.back());
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

std::string_view GgufTypeName(GgufType type) {
  constexpr std::array<std::string_view, kGgufTypes> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                               "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

size_t GgufTypeBytes(GgufType type) {
  constexpr std::array<size_t, kGgufTypes> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

}  // namespace baton::modelfile
