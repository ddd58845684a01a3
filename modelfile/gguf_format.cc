#include "modelfile/gguf_format.h"

#include <array>

#include "common/check.h"

namespace baton::modelfile {
namespace {

struct TypeFacts {
  std::string_view name;
  int block_elements;
  size_t block_bytes;
  uint32_t gguf_id;
};

// By TensorType. A block of 32 elements has, in Q8_0, an fp16 scale and 32 int8; in Q4_0 an fp16 scale and 32 nibbles,
// to which Q4_1 adds an fp16 minimum and Q5_0 adds 32 fifth bits. A block of 256 elements has, in Q4_K and Q5_K, an
// fp16 scale and minimum, 8 factors of 6 bits for each of these in 12 bytes, in Q5_K the fifth bits, and nibbles; in
// Q6_K nibbles, the upper 2 bits, 16 int8 factors and an fp16 scale.
constexpr std::array<TypeFacts, 10> kTypes = {{
    {"F32", 1, 4, 0},
    {"F16", 1, 2, 1},
    {"BF16", 1, 2, 30},
    {"Q8_0", 32, 34, 8},
    {"Q4_0", 32, 18, 2},
    {"Q4_1", 32, 20, 3},
    {"Q5_0", 32, 22, 6},
    {"Q4_K", 256, 144, 12},
    {"Q5_K", 256, 176, 13},
    {"Q6_K", 256, 210, 14},
}};

// By ggml's number; "" for a number that ggml does not use or no longer uses.
constexpr std::array<std::string_view, 40> kGgmlNames = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   "",      "",      "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   "",      "",      "",       "TQ1_0", "TQ2_0", "",        "",       "",        "MXFP4"};

const TypeFacts& Facts(TensorType type) {
  const auto index = static_cast<size_t>(type);
  BATON_CHECK(index < kTypes.size());
  return kTypes[index];
}

}  // namespace

std::string_view TensorTypeName(TensorType type) { return Facts(type).name; }
int TensorBlockElements(TensorType type) { return Facts(type).block_elements; }
size_t TensorBlockBytes(TensorType type) { return Facts(type).block_bytes; }
uint32_t GgufTensorTypeId(TensorType type) { return Facts(type).gguf_id; }

std::optional<TensorType> TensorTypeFromGguf(uint32_t id) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].gguf_id == id) return static_cast<TensorType>(i);
  }
  return std::nullopt;
}

std::string_view GgufTensorTypeIdName(uint32_t id) { return id < kGgmlNames.size() ? kGgmlNames[id] : ""; }

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
