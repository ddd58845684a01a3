// The numbers of the GGUF container (github.com/ggml-org/ggml, docs/gguf.md), for its reader and its writer.
#ifndef BATON_MODELFILE_GGUF_FORMAT_H_
#define BATON_MODELFILE_GGUF_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "modelfile/tensor_view.h"

namespace baton::modelfile {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypes = 13;

std::string_view GgufTypeName(GgufType type);

// Bytes of one value; 0 for strings and arrays, because the file states their size.
size_t GgufTypeBytes(GgufType type);

// The number that stands for `type` in a file. Not for kF8E4M3.
uint32_t GgufTensorTypeId(TensorType type);
// None for a type that Baton does not run.
std::optional<TensorType> TensorTypeFromGguf(uint32_t id);

// A type of ggml's, whether or not Baton runs it. Elements of a row are stored in blocks.
struct GgmlType {
  std::string_view name;
  int block_elements = 0;
  size_t block_bytes = 0;
};
// Null for a number that ggml does not use.
const GgmlType* FindGgmlType(uint32_t id);

// For error messages: the names of all types of a GGUF file that Baton runs.
std::string TensorTypesThatRun();

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_GGUF_FORMAT_H_
