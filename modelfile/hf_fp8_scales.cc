#include "modelfile/hf_fp8_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"

namespace baton::modelfile {
namespace {

// The largest element of FP8.
constexpr float kMostElement = 448.0f;

constexpr std::string_view kScaleSuffixes[] = {".weight_scale", ".weight_scale_inv"};
constexpr std::string_view kActivationSuffixes[] = {".input_scale", ".activation_scale"};

absl::Status Refused(std::string_view file, std::string_view tensor, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(file), ": tensor ", ShowText(tensor), " ", ToAbsl(what),
                                                 "; fetch the model again, or use another one"));
}

float LoadBf16(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

float LoadF16(const uint8_t* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return std::numeric_limits<float>::quiet_NaN();
  const int whole = exponent == 0 ? mantissa : mantissa + 1024;
  const float size = std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

float LoadF32(const uint8_t* from) {
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

struct ScaleType {
  std::string_view dtype;
  size_t bytes;
  float (*load)(const uint8_t* from);
};
constexpr ScaleType kScaleTypes[] = {{"F32", 4, LoadF32}, {"BF16", 2, LoadBf16}, {"F16", 2, LoadF16}};

const ScaleType* FindScaleType(std::string_view dtype) {
  for (const ScaleType& type : kScaleTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Which elements share a scale, by the shapes of matrix and scales. None where the scheme has no such scales.
std::optional<BlockScales> PlaceOf(const Fp8Scheme& scheme, const TensorView& matrix,
                                   const std::vector<int64_t>& shape) {
  using Shape = std::vector<int64_t>;
  if (scheme.block_scales && shape == Shape{CeilDiv(matrix.rows, kFp8Block), CeilDiv(matrix.cols, kFp8Block)}) {
    return BlockScales{.values = nullptr, .rows = kFp8Block, .cols = kFp8Block};
  }
  if (scheme.row_scales && (shape == Shape{matrix.rows, 1} || shape == Shape{matrix.rows})) {
    return BlockScales{.values = nullptr, .rows = 1, .cols = matrix.cols};
  }
  const bool is_one = shape == Shape{} || shape == Shape{1} || shape == Shape{1, 1};
  if (scheme.tensor_scales && is_one) {
    return BlockScales{.values = nullptr, .rows = matrix.rows, .cols = matrix.cols};
  }
  return std::nullopt;
}

// The shapes that the scheme allows, for error messages.
std::string ShapesOf(const Fp8Scheme& scheme, const TensorView& matrix) {
  std::vector<std::string> shapes;
  if (scheme.tensor_scales) shapes.push_back("[1]");
  if (scheme.row_scales) shapes.push_back(absl::StrCat("[", matrix.rows, ", 1]"));
  if (scheme.block_scales) {
    shapes.push_back(absl::StrCat("[", CeilDiv(matrix.rows, kFp8Block), ", ", CeilDiv(matrix.cols, kFp8Block), "]"));
  }
  return absl::StrJoin(shapes, " or ");
}

}  // namespace

std::optional<Fp8Companion> FindFp8Companion(std::string_view name) {
  const auto without = [name](std::string_view suffix) {
    return absl::StrCat(ToAbsl(name.substr(0, name.size() - suffix.size())), ".weight");
  };
  for (const std::string_view suffix : kScaleSuffixes) {
    if (name.ends_with(suffix)) return Fp8Companion{.matrix = without(suffix), .is_scale = true};
  }
  for (const std::string_view suffix : kActivationSuffixes) {
    if (name.ends_with(suffix)) return Fp8Companion{.matrix = without(suffix), .is_scale = false};
  }
  return std::nullopt;
}

absl::Status Fp8Scales::Add(const std::string& matrix, const SafetensorsTensor& scale, std::string_view file) {
  if (scales_.insert({matrix, {.tensor = scale, .file = std::string(file)}}).second) return absl::OkStatus();
  return Refused(file, scale.name, "is the second scale of its matrix");
}

absl::Status Fp8Scales::AttachOne(const Scale& scale, TensorView* matrix) {
  const SafetensorsTensor& tensor = scale.tensor;
  const ScaleType* const type = FindScaleType(tensor.dtype);
  if (type == nullptr) {
    return absl::UnimplementedError(absl::StrCat(scale.file, ": tensor ", ShowText(tensor.name), " is of type ",
                                                 tensor.dtype, ": Baton reads scales in F32, BF16 and F16"));
  }
  const std::optional<BlockScales> place = PlaceOf(scheme_, *matrix, tensor.shape);
  if (!place.has_value()) {
    return Refused(scale.file, tensor.name,
                   absl::StrCat("has shape [", absl::StrJoin(tensor.shape, ", "), "], must have ",
                                ShapesOf(scheme_, *matrix), " by quantization_config"));
  }
  std::vector<float> values;
  values.reserve(tensor.bytes / type->bytes);
  for (size_t i = 0; i < tensor.bytes; i += type->bytes) {
    const float value = type->load(tensor.data + i);
    // Negated, so that NaN is refused too.
    if (!(value >= 0 && value <= std::numeric_limits<float>::max() / kMostElement)) {
      return Refused(scale.file, tensor.name,
                     absl::StrCat("has ", value, " at ", i / type->bytes, ", must have scales from 0 to 7e35"));
    }
    values.push_back(value);
  }
  matrix->scales = *place;
  matrix->scales.values = values.data();
  // Moving a vector keeps its buffer where it is.
  values_.push_back(std::move(values));
  return absl::OkStatus();
}

absl::Status Fp8Scales::Attach(std::vector<TensorView>* tensors) {
  for (TensorView& tensor : *tensors) {
    if (tensor.type != TensorType::kF8E4M3) continue;
    const auto found = scales_.find(tensor.name);
    if (found == scales_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the matrix that becomes ", tensor.name,
                                                     " is F8_E4M3 and has no tensor weight_scale or weight_scale_inv; "
                                                     "fetch the model again, or use another one"));
    }
    BATON_RETURN_IF_ERROR(AttachOne(found->second, &tensor));
    scales_.erase(found);
  }
  if (scales_.empty()) return absl::OkStatus();
  const Scale& left = scales_.begin()->second;
  return Refused(left.file, left.tensor.name, "is a scale, and its matrix is absent or not F8_E4M3");
}

}  // namespace baton::modelfile
