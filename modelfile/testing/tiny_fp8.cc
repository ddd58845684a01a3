#include "modelfile/testing/tiny_fp8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/check.h"
#include "modelfile/json_reader.h"

namespace baton::modelfile {
namespace {

constexpr int64_t kBlockSize = 128;

float TruncateToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits &= 0xffff0000u;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// To nearest even.
uint16_t RoundToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// The element that is nearest, at most 448.
uint8_t NearestFp8(float value) {
  static const std::map<float, uint8_t>& table = *[] {
    auto* const made = new std::map<float, uint8_t>();
    for (int byte = 0; byte < 0x7f; ++byte) made->insert({ValueOfFp8(static_cast<uint8_t>(byte)), byte});
    return made;
  }();
  const float size = std::fabs(value);
  auto above = table.lower_bound(size);
  if (above == table.end()) above = std::prev(above);
  const auto below = above == table.begin() ? above : std::prev(above);
  const uint8_t byte = above->first - size < size - below->first ? above->second : below->second;
  return std::signbit(value) ? byte | 0x80 : byte;
}

// A matrix in FP8.
struct Fp8Matrix {
  int64_t rows;
  int64_t cols;
  int64_t block_rows;
  int64_t block_cols;
  std::vector<uint8_t> elements;
  std::vector<float> scales;

  size_t ScaleOf(int64_t i) const {
    const int64_t of_row = (cols + block_cols - 1) / block_cols;
    return static_cast<size_t>(i / cols / block_rows * of_row + i % cols / block_cols);
  }
};

Fp8Matrix Quantize(const SafetensorsSpec& tensor, Fp8Layout layout) {
  Fp8Matrix matrix = {.rows = tensor.shape[0],
                      .cols = tensor.shape[1],
                      .block_rows = kBlockSize,
                      .block_cols = kBlockSize,
                      .elements = {},
                      .scales = {}};
  if (layout != Fp8Layout::kBlock) {
    matrix.block_rows = layout == Fp8Layout::kTensor ? matrix.rows : 1;
    matrix.block_cols = matrix.cols;
  }
  const int64_t count = matrix.rows * matrix.cols;
  std::vector<float> values(static_cast<size_t>(count));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  matrix.scales.resize(matrix.ScaleOf(count - 1) + 1);
  for (int64_t i = 0; i < count; ++i) {
    float& scale = matrix.scales[matrix.ScaleOf(i)];
    scale = std::max(scale, std::fabs(values[static_cast<size_t>(i)]) / 448.0f);
  }
  if (layout == Fp8Layout::kChannel) {
    for (float& scale : matrix.scales) scale = TruncateToBf16(scale);
  }
  for (int64_t i = 0; i < count; ++i) {
    matrix.elements.push_back(NearestFp8(values[static_cast<size_t>(i)] / matrix.scales[matrix.ScaleOf(i)]));
  }
  return matrix;
}

std::string BytesOf(const std::vector<float>& values, bool is_bf16) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t half = RoundToBf16(value);
    const char* const from = is_bf16 ? reinterpret_cast<const char*>(&half) : reinterpret_cast<const char*>(&value);
    bytes.append(from, is_bf16 ? sizeof(half) : sizeof(value));
  }
  return bytes;
}

SafetensorsSpec ScaleSpec(const std::string& module, const Fp8Matrix& matrix, Fp8Layout layout) {
  const bool is_bf16 = layout == Fp8Layout::kChannel;
  std::vector<int64_t> shape = {1};
  if (layout == Fp8Layout::kChannel) shape = {matrix.rows, 1};
  if (layout == Fp8Layout::kBlock) {
    const int64_t of_row = (matrix.cols + kBlockSize - 1) / kBlockSize;
    shape = {static_cast<int64_t>(matrix.scales.size()) / of_row, of_row};
  }
  return {.name = absl::StrCat(module, layout == Fp8Layout::kBlock ? ".weight_scale_inv" : ".weight_scale"),
          .dtype = is_bf16 ? "BF16" : "F32",
          .shape = shape,
          .bytes = BytesOf(matrix.scales, is_bf16)};
}

Json QuantizationConfig(Fp8Layout layout) {
  switch (layout) {
    case Fp8Layout::kTensor:
      return {{"quant_method", "fp8"}, {"activation_scheme", "static"}, {"ignored_layers", {"lm_head"}}};
    case Fp8Layout::kBlock:
      return {{"quant_method", "fp8"},
              {"fmt", "e4m3"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {kBlockSize, kBlockSize}}};
    case Fp8Layout::kChannel:
      break;
  }
  const Json weights = {{"num_bits", 8},     {"type", "float"},  {"strategy", "channel"},
                        {"symmetric", true}, {"dynamic", false}, {"group_size", nullptr}};
  const Json activations = {{"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"dynamic", true}};
  const Json group = {{"targets", {"Linear"}},
                      {"weights", weights},
                      {"input_activations", activations},
                      {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"}, {"format", "float-quantized"},
          {"quantization_status", "compressed"},  {"ignore", {"lm_head"}},
          {"kv_cache_scheme", nullptr},           {"sparsity_config", Json::object()},
          {"config_groups", {{"group_0", group}}}};
}

bool IsQuantized(const SafetensorsSpec& tensor, const TinyFp8Options& options) {
  return tensor.shape.size() == 2 && tensor.name.starts_with("model.layers.") && tensor.name != options.plain;
}

}  // namespace

float ValueOfFp8(uint8_t byte) {
  const int exponent = byte >> 3 & 15;
  const int mantissa = byte & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (byte & 0x80) != 0 ? -size : size;
}

std::vector<SafetensorsSpec> TinyFp8Tensors(const TinyFp8Options& options) {
  std::vector<SafetensorsSpec> tensors;
  for (const SafetensorsSpec& tensor : TinyHfTensors(options.model)) {
    if (!IsQuantized(tensor, options)) {
      tensors.push_back(tensor);
      continue;
    }
    const std::string module(absl::StripSuffix(tensor.name, ".weight"));
    const Fp8Matrix matrix = Quantize(tensor, options.layout);
    tensors.push_back({.name = tensor.name,
                       .dtype = "F8_E4M3",
                       .shape = tensor.shape,
                       .bytes = {matrix.elements.begin(), matrix.elements.end()}});
    tensors.push_back(ScaleSpec(module, matrix, options.layout));
    if (options.layout != Fp8Layout::kTensor) continue;
    tensors.push_back(
        {.name = module + ".input_scale", .dtype = "F32", .shape = {1}, .bytes = BytesOf({0.5f}, /*is_bf16=*/false)});
  }
  return tensors;
}

HfContents TinyFp8(const TinyFp8Options& options) {
  HfContents contents = TinyHf(options.model);
  Json config = Json::parse(contents.at("config.json"));
  config["quantization_config"] = QuantizationConfig(options.layout);
  contents["config.json"] = config.dump();
  contents["model.safetensors"] = WriteSafetensors(TinyFp8Tensors(options));
  return contents;
}

HfContents TinyFp8Twin(const TinyFp8Options& options, const std::string& dtype) {
  BATON_CHECK(dtype == "F32" || dtype == "BF16") << dtype;
  std::vector<SafetensorsSpec> tensors;
  for (SafetensorsSpec tensor : TinyHfTensors(options.model)) {
    if (IsQuantized(tensor, options)) {
      const Fp8Matrix matrix = Quantize(tensor, options.layout);
      std::vector<float> values;
      for (size_t i = 0; i < matrix.elements.size(); ++i) {
        values.push_back(ValueOfFp8(matrix.elements[i]) * matrix.scales[matrix.ScaleOf(static_cast<int64_t>(i))]);
      }
      tensor.dtype = dtype;
      tensor.bytes = BytesOf(values, dtype == "BF16");
    }
    tensors.push_back(std::move(tensor));
  }
  HfContents contents = TinyHf(options.model);
  contents["model.safetensors"] = WriteSafetensors(tensors);
  return contents;
}

}  // namespace baton::modelfile
