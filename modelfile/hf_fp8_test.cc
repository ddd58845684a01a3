// FP8 checkpoints: every layout of scales, and the error of each thing that Baton does not take.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/json_reader.h"
#include "modelfile/testing/error_text.h"
#include "modelfile/testing/tiny_fp8.h"

namespace baton::modelfile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Fp8Layout kLayouts[] = {Fp8Layout::kTensor, Fp8Layout::kChannel, Fp8Layout::kBlock};
constexpr char kDown[] = "model.layers.1.mlp.down_proj.weight";

std::string NameOf(Fp8Layout layout) {
  return layout == Fp8Layout::kTensor ? "tensor" : layout == Fp8Layout::kChannel ? "channel" : "block";
}

std::string ScaleName(Fp8Layout layout) {
  return std::string(kDown) + (layout == Fp8Layout::kBlock ? "_scale_inv" : "_scale");
}

// What element (row, col) stands for, by the words of tensor_view.h.
float ElementOf(const TensorView& matrix, int64_t row, int64_t col) {
  const int64_t of_row = (matrix.cols + matrix.scales.cols - 1) / matrix.scales.cols;
  return ValueOfFp8(matrix.data[row * matrix.cols + col]) *
         matrix.scales.values[row / matrix.scales.rows * of_row + col / matrix.scales.cols];
}

// The directory with one tensor changed. The change may empty the name, which leaves the tensor out.
HfContents WithTensor(Fp8Layout layout, const std::string& name, const std::function<void(SafetensorsSpec&)>& change) {
  HfContents contents = TinyFp8({.layout = layout});
  std::vector<SafetensorsSpec> tensors;
  bool found = false;
  for (SafetensorsSpec tensor : TinyFp8Tensors({.layout = layout})) {
    if (tensor.name == name) {
      found = true;
      change(tensor);
    }
    if (!tensor.name.empty()) tensors.push_back(std::move(tensor));
  }
  EXPECT_TRUE(found) << name;
  contents["model.safetensors"] = WriteSafetensors(tensors);
  return contents;
}

HfContents WithQuantization(Fp8Layout layout, const std::string& pointer, const Json& value) {
  HfContents contents = TinyFp8({.layout = layout});
  Json config = Json::parse(contents.at("config.json"));
  config[Json::json_pointer("/quantization_config" + pointer)] = value;
  contents["config.json"] = config.dump();
  return contents;
}

std::string Fp8Error(const HfContents& contents, absl::StatusCode code = kInvalid) {
  return ErrorText(ParseHf(contents), code);
}

void SetFloat(SafetensorsSpec& tensor, float value) { std::memcpy(tensor.bytes.data(), &value, sizeof(value)); }

TEST(Fp8Checkpoint, HasTheValuesOfItsTwinInEveryLayout) {
  for (const Fp8Layout layout : kLayouts) {
    SCOPED_TRACE(NameOf(layout));
    const auto file = ParseHf(TinyFp8({.layout = layout}));
    ASSERT_TRUE(file.ok()) << file.status();
    const auto twin = *ParseHf(TinyFp8Twin({.layout = layout}, "F32"));
    ASSERT_EQ((*file)->tensors().size(), twin->tensors().size());
    int matrices = 0;
    for (const TensorView& tensor : (*file)->tensors()) {
      if (tensor.type != TensorType::kF8E4M3) continue;
      ++matrices;
      EXPECT_EQ(tensor.bytes, static_cast<size_t>(tensor.rows * tensor.cols));
      const TensorView& want = *twin->Find(tensor.name);
      for (int64_t row = 0; row < tensor.rows; ++row) {
        for (int64_t col = 0; col < tensor.cols; ++col) {
          float value;
          std::memcpy(&value, want.data + 4 * (row * tensor.cols + col), sizeof(value));
          ASSERT_EQ(ElementOf(tensor, row, col), value) << tensor.name << " " << row << " " << col;
          ASSERT_EQ(ElementOf(tensor.Row(row), 0, col), value) << tensor.name << " " << row << " " << col;
        }
      }
    }
    EXPECT_EQ(matrices, 14);
  }
}

TEST(Fp8Checkpoint, SharesScalesAsItsLayoutSays) {
  const auto scales = [](Fp8Layout layout) {
    const auto file = *ParseHf(TinyFp8({.layout = layout}));
    const BlockScales of = file->Find("blk.1.ffn_down.weight")->scales;
    return std::pair(of.rows, of.cols);
  };
  EXPECT_EQ(scales(Fp8Layout::kTensor), std::pair(int64_t{160}, int64_t{192}));
  EXPECT_EQ(scales(Fp8Layout::kChannel), std::pair(int64_t{1}, int64_t{192}));
  EXPECT_EQ(scales(Fp8Layout::kBlock), std::pair(int64_t{128}, int64_t{128}));
}

TEST(Fp8Checkpoint, MatricesThatWereNotQuantizedStayAsTheyAre) {
  for (const Fp8Layout layout : kLayouts) {
    const auto file = ParseHf(TinyFp8({.layout = layout, .plain = kDown}));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->Find("blk.1.ffn_down.weight")->type, TensorType::kF32);
    EXPECT_EQ((*file)->Find("blk.0.ffn_down.weight")->type, TensorType::kF8E4M3);
    EXPECT_EQ((*file)->Find("token_embd.weight")->scales.values, nullptr);
  }
}

TEST(Fp8Checkpoint, ScalesMayLieInAnotherFileThanTheirMatrices) {
  HfContents contents = TinyFp8({});
  std::vector<SafetensorsSpec> scales, others;
  for (SafetensorsSpec& tensor : TinyFp8Tensors({})) {
    const bool is_scale = tensor.name.ends_with("_scale_inv");
    (is_scale ? scales : others).push_back(std::move(tensor));
  }
  const Digest128 whole = (*ParseHf(contents))->WeightsDigest();
  contents.erase("model.safetensors");
  contents["a.safetensors"] = WriteSafetensors(scales);
  contents["b.safetensors"] = WriteSafetensors(others);
  const auto file = ParseHf(contents);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->WeightsDigest(), whole);
}

TEST(Fp8Checkpoint, ItsDigestCoversTheScales) {
  const Digest128 before = (*ParseHf(TinyFp8({})))->WeightsDigest();
  const auto changed = WithTensor(Fp8Layout::kBlock, ScaleName(Fp8Layout::kBlock),
                                  [](SafetensorsSpec& scale) { scale.bytes[scale.bytes.size() - 4] ^= 1; });
  EXPECT_NE((*ParseHf(changed))->WeightsDigest(), before);
}

TEST(Fp8Checkpoint, ScalesAreReadInF16AndAsScalarsToo) {
  const auto half = WithTensor(Fp8Layout::kTensor, ScaleName(Fp8Layout::kTensor), [](SafetensorsSpec& scale) {
    scale.dtype = "F16";
    scale.shape = {};
    scale.bytes = "\x01\x34";  // 0.25 + 2^-12
  });
  const auto file = ParseHf(half);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Find("blk.1.ffn_down.weight")->scales.values[0], 0.25f + 0x1p-12f);
}

TEST(Fp8Checkpoint, AScaleOfEachRowMayBeAVector) {
  const auto vector = WithTensor(Fp8Layout::kChannel, ScaleName(Fp8Layout::kChannel),
                                 [](SafetensorsSpec& scale) { scale.shape = {160}; });
  EXPECT_TRUE(ParseHf(vector).ok()) << ParseHf(vector).status();
}

TEST(Fp8Checkpoint, RefusesAMatrixWithoutScale) {
  for (const Fp8Layout layout : kLayouts) {
    const auto without = WithTensor(layout, ScaleName(layout), [](SafetensorsSpec& tensor) { tensor.name.clear(); });
    EXPECT_THAT(Fp8Error(without), AllOf(HasSubstr("blk.1.ffn_down.weight"), HasSubstr("no tensor weight_scale")));
  }
}

TEST(Fp8Checkpoint, RefusesAScaleWithoutItsMatrix) {
  for (const Fp8Layout layout : kLayouts) {
    const auto plain = WithTensor(layout, kDown, [](SafetensorsSpec& tensor) {
      tensor.dtype = "F32";
      tensor.bytes.assign(tensor.bytes.size() * 4, '\0');
    });
    EXPECT_THAT(Fp8Error(plain), AllOf(HasSubstr(ScaleName(layout)), HasSubstr("absent or not F8_E4M3")));
  }
}

TEST(Fp8Checkpoint, RefusesScalesOfAnotherShape) {
  const auto shaped = [](Fp8Layout layout, std::vector<int64_t> shape) {
    return WithTensor(layout, ScaleName(layout), [&shape](SafetensorsSpec& scale) {
      int64_t count = scale.dtype == "BF16" ? 2 : 4;
      for (const int64_t size : shape) count *= size;
      scale.shape = shape;
      scale.bytes.assign(static_cast<size_t>(count), '\0');
    });
  };
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kBlock, {2, 1})), HasSubstr("has shape [2, 1], must have [2, 2]"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kBlock, {1})), HasSubstr("has shape [1], must have [2, 2]"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kBlock, {160, 1})), HasSubstr("has shape [160, 1]"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kChannel, {192, 1})), HasSubstr("must have [160, 1] by quantization_config"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kChannel, {2, 2})), HasSubstr("must have [160, 1]"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kChannel, {1})), HasSubstr("must have [160, 1]"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kTensor, {2})), HasSubstr("must have [1] or [160, 1]"));
  EXPECT_THAT(Fp8Error(shaped(Fp8Layout::kTensor, {2, 2})), HasSubstr("must have [1] or [160, 1]"));
}

TEST(Fp8Checkpoint, RefusesScalesThatNoWeightCanHave) {
  for (const float bad : {NAN, INFINITY, -1.0f, -0x1p-149f, 0x1p120f}) {
    const auto changed = WithTensor(Fp8Layout::kBlock, ScaleName(Fp8Layout::kBlock),
                                    [bad](SafetensorsSpec& scale) { SetFloat(scale, bad); });
    EXPECT_THAT(Fp8Error(changed), AllOf(HasSubstr(ScaleName(Fp8Layout::kBlock)), HasSubstr("scales from 0 to")))
        << bad;
  }
  for (const float good : {0.0f, 0x1p-149f, 0x1p118f}) {
    const auto changed = WithTensor(Fp8Layout::kBlock, ScaleName(Fp8Layout::kBlock),
                                    [good](SafetensorsSpec& scale) { SetFloat(scale, good); });
    EXPECT_TRUE(ParseHf(changed).ok()) << good;
  }
}

TEST(Fp8Checkpoint, RefusesTwoScalesOfAMatrix) {
  HfContents contents = TinyFp8({});
  std::vector<SafetensorsSpec> tensors = TinyFp8Tensors({});
  const auto is_scale = [](const SafetensorsSpec& tensor) { return tensor.name == ScaleName(Fp8Layout::kBlock); };
  SafetensorsSpec second = *std::find_if(tensors.begin(), tensors.end(), is_scale);
  second.name = std::string(kDown) + "_scale";
  tensors.push_back(second);
  contents["model.safetensors"] = WriteSafetensors(tensors);
  EXPECT_THAT(Fp8Error(contents), HasSubstr("is the second scale of its matrix"));
}

TEST(Fp8Checkpoint, RefusesOtherTypesByTheirNames) {
  const auto typed = [](const std::string& tensor, const std::string& dtype) {
    return WithTensor(Fp8Layout::kBlock, tensor, [&dtype](SafetensorsSpec& spec) {
      if (dtype == "F8_E8M0") spec.bytes.resize(spec.bytes.size() / 4);
      spec.dtype = dtype;
    });
  };
  EXPECT_THAT(Fp8Error(typed(kDown, "F8_E5M2"), kUnimplemented), AllOf(HasSubstr(kDown), HasSubstr("F8_E5M2")));
  EXPECT_THAT(Fp8Error(typed(ScaleName(Fp8Layout::kBlock), "F8_E8M0"), kUnimplemented),
              AllOf(HasSubstr(ScaleName(Fp8Layout::kBlock)), HasSubstr("F32, BF16 and F16")));
  const auto vector = WithTensor(Fp8Layout::kBlock, "model.norm.weight", [](SafetensorsSpec& norm) {
    norm.dtype = "F8_E4M3";
    norm.bytes.resize(norm.bytes.size() / 4);
  });
  EXPECT_THAT(Fp8Error(vector), AllOf(HasSubstr("model.norm.weight"), HasSubstr("is no matrix")));
}

TEST(Fp8Checkpoint, RefusesScalesOfTheKvCache) {
  HfContents contents = TinyFp8({});
  std::vector<SafetensorsSpec> tensors = TinyFp8Tensors({});
  tensors.push_back({.name = "model.layers.0.self_attn.k_scale", .dtype = "F32", .shape = {1}, .bytes = "abcd"});
  contents["model.safetensors"] = WriteSafetensors(tensors);
  EXPECT_THAT(Fp8Error(contents, kUnimplemented), HasSubstr("self_attn.k_scale"));
}

TEST(Fp8Checkpoint, RefusesFp8MatricesThatTheConfigurationDoesNotKnow) {
  HfContents contents = TinyFp8({});
  Json config = Json::parse(contents.at("config.json"));
  config.erase("quantization_config");
  contents["config.json"] = config.dump();
  EXPECT_THAT(Fp8Error(contents, kUnimplemented), AllOf(HasSubstr("F8_E4M3"), HasSubstr("no quantization_config")));
}

TEST(Fp8Config, ReadsBlocksOfCompressedTensors) {
  HfContents contents = TinyFp8({});
  const Json weights = {{"num_bits", 8}, {"type", "float"}, {"strategy", "block"}, {"block_structure", {128, 128}}};
  Json config = Json::parse(contents.at("config.json"));
  config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "float-quantized"},
                                   {"config_groups", {{"FP8_BLOCK", {{"weights", weights}}}}}};
  contents["config.json"] = config.dump();
  EXPECT_TRUE(ParseHf(contents).ok()) << ParseHf(contents).status();
}

TEST(Fp8Config, NamesWhatBatonDoesNotRun) {
  const struct {
    Fp8Layout layout;
    const char* pointer;
    Json value;
    const char* named;
  } cases[] = {
      {Fp8Layout::kBlock, "/quant_method", "gptq", "quant_method is \"gptq\""},
      {Fp8Layout::kBlock, "/quant_method", nullptr, "quant_method is missing"},
      {Fp8Layout::kBlock, "/fmt", "e5m2", "fmt is \"e5m2\""},
      {Fp8Layout::kBlock, "/weight_block_size", {64, 128}, "weight_block_size is [64,128], and Baton runs [128, 128]"},
      {Fp8Layout::kBlock, "/weight_block_size", 128, "weight_block_size is 128"},
      {Fp8Layout::kTensor, "/kv_cache_scheme", "static", "kv_cache_scheme is \"static\""},
      {Fp8Layout::kChannel, "/kv_cache_scheme", {{"num_bits", 8}}, "kv_cache_scheme"},
      {Fp8Layout::kChannel, "/format", "pack-quantized", "format is \"pack-quantized\""},
      {Fp8Layout::kChannel, "/transform_config", {{"config_groups", 1}}, "transform_config"},
      {Fp8Layout::kChannel, "/sparsity_config", {{"format", "sparse-24-bitmask"}}, "sparsity_config: format"},
      {Fp8Layout::kChannel, "/config_groups/group_0/format", "int-quantized", "group_0: format is \"int-quantized\""},
      {Fp8Layout::kChannel, "/config_groups/group_0/output_activations", {{"num_bits", 8}}, "output_activations"},
      {Fp8Layout::kChannel, "/config_groups/group_0/weights", nullptr, "weights is missing"},
      {Fp8Layout::kChannel, "/config_groups/group_0/weights/num_bits", 4, "weights: num_bits is 4"},
      {Fp8Layout::kChannel, "/config_groups/group_0/weights/type", "int", "weights: type is \"int\""},
      {Fp8Layout::kChannel, "/config_groups/group_0/weights/symmetric", false, "weights: symmetric is false"},
      {Fp8Layout::kChannel, "/config_groups/group_0/weights/strategy", "group", "weights: strategy is \"group\""},
      {Fp8Layout::kChannel, "/config_groups/group_0/weights/strategy", "block", "block_structure is missing"},
  };
  for (const auto& each : cases) {
    EXPECT_THAT(
        Fp8Error(WithQuantization(each.layout, each.pointer, each.value), kUnimplemented),
        AllOf(HasSubstr("config.json: quantization_config"), HasSubstr(each.named), HasSubstr("use another model")));
  }
}

TEST(Fp8Config, NamesTheKeyThatIsWrong) {
  EXPECT_THAT(Fp8Error(WithQuantization(Fp8Layout::kChannel, "/config_groups", Json::object())),
              HasSubstr("config_groups is an object of 0"));
  EXPECT_THAT(Fp8Error(WithQuantization(Fp8Layout::kChannel, "/config_groups/group_0", 1)), HasSubstr("group_0 is 1"));
  EXPECT_THAT(Fp8Error(WithQuantization(Fp8Layout::kChannel, "/config_groups/group_0/weights", "fp8")),
              HasSubstr("weights is \"fp8\""));
  EXPECT_THAT(Fp8Error(WithQuantization(Fp8Layout::kBlock, "", 7)), HasSubstr("quantization_config is 7"));
}

}  // namespace
}  // namespace baton::modelfile
