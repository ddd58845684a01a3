// Descriptions of files that Baton runs and of files that it does not. Damage is an error in both.
#include "modelfile/model_description.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/gguf_document.h"
#include "modelfile/gguf_format.h"
#include "modelfile/json_reader.h"
#include "modelfile/testing/smallest_llama.h"
#include "modelfile/testing/tiny_hf.h"

namespace baton::modelfile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kIq4Nl = 20;
constexpr uint32_t kQ2K = 10;

absl::StatusOr<ModelDescription> Describe(const std::vector<uint8_t>& bytes) {
  return DescribeGguf(bytes.data(), bytes.size());
}

absl::StatusOr<ModelDescription> Describe(HfContents contents) {
  MemoryHfFiles files(std::move(contents));
  return DescribeHf(files);
}

int64_t SizeOf(const ModelDescription& description, std::string_view name) {
  for (const StatedSize& size : description.sizes) {
    if (size.name == name) return size.value;
  }
  return -1;
}

std::string MetadataOf(const ModelDescription& description, std::string_view key) {
  for (const MetadataEntry& entry : description.metadata) {
    if (entry.key == key) return entry.value;
  }
  return "absent";
}

HfContents TinyFloats() {
  return TinyHf({.layers = 1, .matrix_type = TensorType::kF32, .embedding_type = TensorType::kBf16});
}

HfContents WithConfigKey(const std::string& key, const Json& value) {
  HfContents contents = TinyFloats();
  Json config = Json::parse(contents["config.json"]);
  config[key] = value;
  contents["config.json"] = config.dump();
  return contents;
}

TEST(DescribeGguf, TellsWhatTheFileHolds) {
  const std::vector<uint8_t> bytes = TinyLlama();
  const auto model = Parse(bytes);
  const auto description = Describe(bytes);
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(description->format, "GGUF v3");
  EXPECT_EQ(description->architecture, "llama");
  EXPECT_EQ(description->file_bytes, bytes.size());
  EXPECT_EQ(SizeOf(*description, "layers"), 2);
  EXPECT_EQ(SizeOf(*description, "context_length"), 256);
  ASSERT_EQ(description->tensors.size(), (*model)->tensors().size());
  for (size_t i = 0; i < description->tensors.size(); ++i) {
    const StoredTensor& stored = description->tensors[i];
    const TensorView& run = (*model)->tensors()[i];
    EXPECT_EQ(stored.name, run.name);
    EXPECT_EQ(stored.type, TensorTypeName(run.type));
    EXPECT_EQ(stored.bytes, run.bytes);
    EXPECT_EQ(stored.elements(), run.rows * run.cols);
  }
  EXPECT_EQ(description->metadata[0].key, "general.architecture");
  EXPECT_EQ(description->metadata[0].type, "string");
  EXPECT_EQ(description->metadata[0].value, "llama");
}

TEST(DescribeGguf, DescribesAnArchitectureThatBatonDoesNotRun) {
  const std::vector<uint8_t> bytes = WithString("general.architecture", "qwen3");
  EXPECT_THAT(ErrorOf(bytes, kUnimplemented), HasSubstr("architecture qwen3"));
  const auto description = Describe(bytes);
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(description->architecture, "qwen3");
  // The sizes stand under the name of another architecture.
  EXPECT_TRUE(description->sizes.empty());

  const auto own_sizes = Describe(TinyLlamaWriter(Smallest({"general.architecture"}))
                                      .AddString("general.architecture", "qwen3")
                                      .AddU32("qwen3.block_count", 28)
                                      .AddString("qwen3.context_length", "long")
                                      .Finish());
  EXPECT_EQ(SizeOf(*own_sizes, "layers"), 28);
  EXPECT_EQ(SizeOf(*own_sizes, "context_length"), -1) << "a text is no size";
}

TEST(DescribeGguf, DescribesTensorsThatBatonDoesNotRun) {
  std::vector<uint8_t> bytes = GgufWriter()
                                   .AddString("general.architecture", "llama")
                                   .AddRawTensor({.name = "experts", .dims = {64, 2, 3}, .type = kIq4Nl})
                                   .AddRawTensor({.name = "q2", .dims = {256}, .type = kQ2K, .offset = 224})
                                   .Finish();
  bytes.resize(bytes.size() + 512);
  EXPECT_EQ(GgufDocument::Parse(bytes.data(), bytes.size()).status().code(), kUnimplemented);
  const auto description = Describe(bytes);
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(description->tensors[0].type, "IQ4_NL");
  EXPECT_THAT(description->tensors[0].shape, ElementsAre(3, 2, 64));
  EXPECT_EQ(description->tensors[0].elements(), 384);
  EXPECT_EQ(description->tensors[0].bytes, 12u * 18);
  EXPECT_EQ(description->tensors[1].type, "Q2_K");
  EXPECT_EQ(description->tensors[1].bytes, 84u);
}

TEST(DescribeGguf, TheRefusalNamesEveryTypeThatRuns) {
  std::vector<uint8_t> bytes = GgufWriter().AddRawTensor({.name = "t", .dims = {256}, .type = kQ2K}).Finish();
  bytes.resize(bytes.size() + 256);
  EXPECT_THAT(ErrorText(GgufDocument::Parse(bytes.data(), bytes.size()), kUnimplemented),
              HasSubstr("Baton runs F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q4_K, Q5_K and Q6_K;"));
}

TEST(DescribeGguf, ACutFileIsAnErrorAlsoWhereBatonWouldNotRunIt) {
  const std::vector<uint8_t> bytes = WithString("general.architecture", "qwen3");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(Describe(cut).status().code(), kInvalid) << "cut to " << size;
  }
  std::vector<uint8_t> q2 = GgufWriter().AddRawTensor({.name = "q2", .dims = {256}, .type = kQ2K}).Finish();
  q2.resize((q2.size() + 31) / 32 * 32 + 83);
  EXPECT_THAT(ErrorText(Describe(q2)), HasSubstr("tensor q2 ends at byte"));
}

TEST(DescribeGguf, WritesNumbersAsPeopleDo) {
  const auto description = Describe(GgufWriter()
                                        .AddF32("eps", 1e-5f)
                                        .AddF32("tenth", 0.1f)
                                        .AddF32("theta", 1e6f)
                                        .AddF32("third", 1.0f / 3)
                                        .AddF32("exact", 16777217.0f)
                                        .Finish());
  ASSERT_TRUE(description.ok()) << description.status();
  EXPECT_EQ(MetadataOf(*description, "eps"), "1e-05");
  EXPECT_EQ(MetadataOf(*description, "tenth"), "0.1");
  EXPECT_EQ(MetadataOf(*description, "theta"), "1000000");
  EXPECT_EQ(MetadataOf(*description, "third"), "0.33333334");
  EXPECT_EQ(MetadataOf(*description, "exact"), "16777216");
  EXPECT_EQ(ShowFloat(1e-5), "1e-05");
  EXPECT_EQ(ShowFloat(1.0 / 3), "0.3333333333333333");
}

TEST(DescribeHf, DescribesModelsThatBatonDoesNotRun) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"model_type", "mamba"}, {"quantization_config", {{"bits", 4}}}, {"attention_bias", true}}) {
    const HfContents contents = WithConfigKey(key, value);
    EXPECT_EQ(ParseHf(contents).status().code(), kUnimplemented);
    const auto description = Describe(contents);
    ASSERT_TRUE(description.ok()) << description.status();
    EXPECT_EQ(description->format, "Hugging Face directory");
    EXPECT_EQ(description->architecture, key == "model_type" ? "mamba" : "llama");
    EXPECT_EQ(description->file_bytes, contents.at("model.safetensors").size());
    EXPECT_EQ(SizeOf(*description, "layers"), 1);
    EXPECT_NE(MetadataOf(*description, "config." + key), "absent");
    const bool has_embedding =
        std::any_of(description->tensors.begin(), description->tensors.end(), [](const StoredTensor& tensor) {
          return tensor.name == "model.embed_tokens.weight" && tensor.type == "BF16" && tensor.shape[1] == 64;
        });
    EXPECT_TRUE(has_embedding) << "tensors have the names that the file gives them";
  }
}

TEST(DescribeHf, SaysWhichFileIsMissingOrDamaged) {
  HfContents contents = TinyFloats();
  contents.erase("config.json");
  EXPECT_THAT(ErrorText(Describe(contents), absl::StatusCode::kNotFound), HasSubstr("there is no config.json"));
  EXPECT_THAT(ErrorText(ParseHf(contents), absl::StatusCode::kNotFound), HasSubstr("there is no config.json"));
  contents = TinyFloats();
  contents["config.json"] = "{";
  EXPECT_THAT(ErrorText(Describe(contents)), HasSubstr("config.json: is not valid JSON"));
  contents = TinyFloats();
  contents["model.safetensors"].pop_back();
  EXPECT_THAT(ErrorText(Describe(contents)), HasSubstr("model.safetensors: damaged"));
  contents.erase("model.safetensors");
  EXPECT_THAT(ErrorText(Describe(contents), absl::StatusCode::kNotFound), HasSubstr("there is no model.safetensors"));
}

}  // namespace
}  // namespace baton::modelfile
