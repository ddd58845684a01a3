// The same weights in different files: the same bits, so the same tokens.
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/cpu_model.h"
#include "engine/kernels/aligned_buffer.h"
#include "engine/testing/retyped_model.h"
#include "gtest/gtest.h"
#include "modelfile/testing/tiny_fp8.h"
#include "modelfile/testing/tiny_hf.h"
#include "modelfile/testing/tiny_llama.h"

namespace baton::engine {
namespace {

using modelfile::TensorType;

constexpr int kPromptTokens = 21;
constexpr int kOutputTokens = 24;
constexpr int kBlocks = (kPromptTokens + kOutputTokens) / kBlockTokens + 1;

struct Generated {
  std::string fingerprint;
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // those that chose each token
};

Generated GenerateGreedily(const modelfile::ModelFile& file, Numerics numerics, Weights weights = Weights::kAuto) {
  LoadProgress progress;
  auto runner = LoadCpuModel(
      file, {.numerics = numerics, .weights = weights, .threads = 1, .max_rows = kPromptTokens, .progress = &progress});
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  const size_t block_bytes = (*runner)->kv_layout().block_bytes();
  kernels::AlignedBuffer memory(kBlocks * block_bytes);
  HostKvPool pool(absl::MakeSpan(memory.data(), memory.bytes()), block_bytes);
  (*runner)->SetKvPool(pool);
  std::vector<BlockId> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(i);
  std::vector<int32_t> rows;
  for (int i = 0; i < kPromptTokens; ++i) rows.push_back(i * 37 % (*runner)->vocab_size());
  EXPECT_EQ(progress.packed_bytes, progress.total_bytes);
  EXPECT_EQ(progress.packed_bytes, PackedWeightBytes(file, numerics, weights));
  Generated out;
  out.fingerprint = (*runner)->fingerprint();
  std::vector<float> logits(static_cast<size_t>((*runner)->vocab_size()));
  int position = 0;
  while (out.tokens.size() < kOutputTokens) {
    SequenceSlice slice;
    slice.row_count = static_cast<int32_t>(rows.size());
    slice.first_position = position;
    slice.blocks = blocks;
    slice.output_rows = OutputRows::kLast;
    slice.first_output = 0;
    StepBatch batch;
    batch.tokens = rows;
    batch.slices = absl::MakeConstSpan(&slice, 1);
    batch.output_count = 1;
    (*runner)->Run(batch, {.logits = absl::MakeSpan(logits)});
    position += slice.row_count;
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    out.tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    rows = {out.tokens.back()};
  }
  return out;
}

void ExpectSameBits(const Generated& actual, const Generated& expected) {
  EXPECT_EQ(actual.tokens, expected.tokens);
  ASSERT_EQ(actual.logits.size(), expected.logits.size());
  EXPECT_EQ(std::memcmp(actual.logits.data(), expected.logits.data(), expected.logits.size() * sizeof(float)), 0);
}

struct Variant {
  const char* name;
  TensorType type;
  bool tied_head;
};

// A small model of the variant's type in both containers.
class FormatsTest : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const modelfile::TinyLlamaOptions options = {.hidden_size = 64,
                                                 .heads = 2,
                                                 .kv_heads = 1,
                                                 .matrix_type = GetParam().type,
                                                 .embedding_type = GetParam().type,
                                                 .tied_head = GetParam().tied_head};
    bytes_ = modelfile::TinyLlama(options);
    auto gguf = modelfile::ParseGguf(bytes_.data(), bytes_.size());
    ASSERT_TRUE(gguf.ok()) << gguf.status();
    gguf_ = *std::move(gguf);
    auto directory = modelfile::ParseHf(modelfile::TinyHf(options));
    ASSERT_TRUE(directory.ok()) << directory.status();
    directory_ = *std::move(directory);
  }

  std::vector<uint8_t> bytes_;
  std::unique_ptr<modelfile::ModelFile> gguf_;
  std::unique_ptr<modelfile::ModelFile> directory_;
};

TEST_P(FormatsTest, GiveTheSameTokensFromTheSameBits) {
  for (const Numerics numerics : {Numerics::kFp32, Numerics::kExact}) {
    ExpectSameBits(GenerateGreedily(*directory_, numerics), GenerateGreedily(*gguf_, numerics));
  }
}

TEST_P(FormatsTest, QuantizedAtLoadAreThoseOfAFileWithTheSameBlocks) {
  for (const Weights weights : {Weights::kInt8, Weights::kInt4}) {
    const auto blocks = MakeRetypedModel(*gguf_, [weights](const auto& tensor) { return PackedType(tensor, weights); });
    for (const Numerics numerics : {Numerics::kFp32, Numerics::kExact}) {
      const Generated expected = GenerateGreedily(*blocks, numerics);
      ExpectSameBits(GenerateGreedily(*gguf_, numerics, weights), expected);
      ExpectSameBits(GenerateGreedily(*directory_, numerics, weights), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FormatsTest,
                         testing::Values(Variant{"F32", TensorType::kF32, true}, Variant{"F16", TensorType::kF16, true},
                                         Variant{"BF16", TensorType::kBf16, true},
                                         Variant{"UntiedHead", TensorType::kBf16, false}),
                         [](const auto& info) { return info.param.name; });

TEST(WeightsTest, FingerprintsOfOtherPrecisionsDiffer) {
  const std::vector<uint8_t> bytes = modelfile::TinyLlama(
      {.heads = 2, .kv_heads = 1, .matrix_type = TensorType::kBf16, .embedding_type = TensorType::kBf16});
  const auto file = modelfile::ParseGguf(bytes.data(), bytes.size());
  ASSERT_TRUE(file.ok()) << file.status();
  std::set<std::string> fingerprints;
  for (const Weights weights : {Weights::kAuto, Weights::kInt8, Weights::kInt4}) {
    EXPECT_EQ(IsRounded(**file, weights), weights != Weights::kAuto);
    fingerprints.insert(GenerateGreedily(**file, Numerics::kExact, weights).fingerprint);
  }
  EXPECT_EQ(fingerprints.size(), 3);
}

TEST(WeightsTest, EmbeddingAndHeadAreNotRoundedToLessThanInt8) {
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    const modelfile::TensorView tensor{.name = name, .type = TensorType::kF16, .rows = 32, .cols = 32};
    EXPECT_EQ(PackedType(tensor, Weights::kInt4), TensorType::kQ8_0);
  }
  const modelfile::TensorView tensor{.name = "blk.0.attn_q.weight", .type = TensorType::kF16, .rows = 32, .cols = 32};
  EXPECT_EQ(PackedType(tensor, Weights::kInt4), TensorType::kQ4_1);
  EXPECT_EQ(PackedType(tensor, Weights::kInt8), TensorType::kQ8_0);
}

TEST(WeightsTest, MatricesThatTheFileHoldsQuantizedStayAsTheyAre) {
  const std::vector<uint8_t> bytes = modelfile::TinyLlama({.heads = 2, .kv_heads = 1});
  const auto file = modelfile::ParseGguf(bytes.data(), bytes.size());
  ASSERT_TRUE(file.ok()) << file.status();
  const Generated expected = GenerateGreedily(**file, Numerics::kExact);
  for (const Weights weights : {Weights::kInt8, Weights::kInt4}) {
    EXPECT_FALSE(IsRounded(**file, weights));
    const Generated actual = GenerateGreedily(**file, Numerics::kExact, weights);
    ExpectSameBits(actual, expected);
    EXPECT_EQ(actual.fingerprint, expected.fingerprint);
  }
}

class Fp8FormatsTest : public testing::TestWithParam<modelfile::Fp8Layout> {
 protected:
  std::unique_ptr<modelfile::ModelFile> Open(const modelfile::HfContents& contents) const {
    auto file = modelfile::ParseHf(contents);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const modelfile::TinyFp8Options options_ = {.layout = GetParam(), .plain = "model.layers.1.self_attn.v_proj.weight"};
};

TEST_P(Fp8FormatsTest, GiveTheTokensOfTheirFloatTwinFromTheSameBits) {
  const auto file = Open(TinyFp8(options_));
  EXPECT_FALSE(IsRounded(*file, Weights::kAuto));
  ExpectSameBits(GenerateGreedily(*file, Numerics::kFp32),
                 GenerateGreedily(*Open(TinyFp8Twin(options_, "F32")), Numerics::kFp32));
  ExpectSameBits(GenerateGreedily(*file, Numerics::kExact),
                 GenerateGreedily(*Open(TinyFp8Twin(options_, "BF16")), Numerics::kExact));
}

TEST_P(Fp8FormatsTest, QuantizedAtLoadAreTheirFloatTwinQuantized) {
  const auto file = Open(TinyFp8(options_));
  const auto twin = Open(TinyFp8Twin(options_, "F32"));
  for (const Weights weights : {Weights::kInt8, Weights::kInt4}) {
    EXPECT_TRUE(IsRounded(*file, weights));
    ExpectSameBits(GenerateGreedily(*file, Numerics::kExact, weights),
                   GenerateGreedily(*twin, Numerics::kExact, weights));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Fp8FormatsTest,
                         testing::Values(modelfile::Fp8Layout::kTensor, modelfile::Fp8Layout::kChannel,
                                         modelfile::Fp8Layout::kBlock));

// Writes `byte` over the last element of the last matrix of FP8.
modelfile::HfContents WithLastFp8Element(uint8_t byte) {
  std::vector<modelfile::SafetensorsSpec> tensors = modelfile::TinyFp8Tensors({});
  const auto is_fp8 = [](const modelfile::SafetensorsSpec& tensor) { return tensor.dtype == "F8_E4M3"; };
  std::find_if(tensors.rbegin(), tensors.rend(), is_fp8)->bytes.back() = static_cast<char>(byte);
  modelfile::HfContents contents = modelfile::TinyFp8({});
  contents["model.safetensors"] = modelfile::WriteSafetensors(tensors);
  return contents;
}

TEST(Fp8Test, ANanIsRefusedWhenWeightsAreLoaded) {
  for (const uint8_t byte : {0x7f, 0xff, 0x7e, 0xfe}) {
    const auto file = modelfile::ParseHf(WithLastFp8Element(byte));
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status status = LoadCpuModel(**file, {.threads = 2}).status();
    if ((byte & 0x7f) != 0x7f) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("tensor blk.1.ffn_down.weight has a NaN"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace baton::engine
