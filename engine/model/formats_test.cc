// The same weights as a GGUF file and as a Hugging Face directory: the same bits, so the same tokens.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/cpu_model.h"
#include "engine/kernels/aligned_buffer.h"
#include "gtest/gtest.h"
#include "modelfile/tiny_hf.h"
#include "modelfile/tiny_llama.h"

namespace baton::engine {
namespace {

using modelfile::TensorType;

constexpr int kPromptTokens = 21;
constexpr int kOutputTokens = 24;
constexpr int kBlocks = (kPromptTokens + kOutputTokens) / kBlockTokens + 1;

struct Generated {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // those that chose each token
};

Generated GenerateGreedily(const modelfile::ModelFile& file, Numerics numerics) {
  auto runner = LoadCpuModel(file, {.numerics = numerics, .threads = 1, .max_rows = kPromptTokens});
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  kernels::AlignedBuffer pool(kBlocks * (*runner)->kv_layout().block_bytes());
  (*runner)->SetKvPool(pool.data(), kBlocks);
  std::vector<BlockId> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(i);
  std::vector<int32_t> rows;
  for (int i = 0; i < kPromptTokens; ++i) rows.push_back(i * 37 % (*runner)->vocab_size());
  Generated out;
  std::vector<float> logits(static_cast<size_t>((*runner)->vocab_size()));
  int position = 0;
  while (out.tokens.size() < kOutputTokens) {
    SequenceSlice slice;
    slice.row_count = static_cast<int32_t>(rows.size());
    slice.first_position = position;
    slice.blocks = blocks;
    slice.wants_logits = true;
    slice.logits_index = 0;
    StepBatch batch;
    batch.tokens = rows;
    batch.slices = absl::MakeConstSpan(&slice, 1);
    batch.logits_count = 1;
    (*runner)->Forward(batch, absl::MakeSpan(logits));
    position += slice.row_count;
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    out.tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    rows = {out.tokens.back()};
  }
  return out;
}

struct Variant {
  const char* name;
  TensorType type;
  bool tied_head;
};

class FormatsTest : public testing::TestWithParam<Variant> {};

TEST_P(FormatsTest, GiveTheSameTokensFromTheSameBits) {
  const modelfile::TinyLlamaOptions options = {.hidden_size = 64,
                                               .heads = 2,
                                               .kv_heads = 1,
                                               .matrix_type = GetParam().type,
                                               .embedding_type = GetParam().type,
                                               .tied_head = GetParam().tied_head};
  const std::vector<uint8_t> bytes = modelfile::TinyLlama(options);
  const auto gguf = modelfile::ParseGguf(bytes.data(), bytes.size());
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  const auto directory = modelfile::ParseHf(modelfile::TinyHf(options));
  ASSERT_TRUE(directory.ok()) << directory.status();
  for (const Numerics numerics : {Numerics::kFp32, Numerics::kExact}) {
    const Generated expected = GenerateGreedily(**gguf, numerics);
    const Generated actual = GenerateGreedily(**directory, numerics);
    EXPECT_EQ(actual.tokens, expected.tokens);
    ASSERT_EQ(actual.logits.size(), expected.logits.size());
    EXPECT_EQ(std::memcmp(actual.logits.data(), expected.logits.data(), expected.logits.size() * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FormatsTest,
                         testing::Values(Variant{"F32", TensorType::kF32, true}, Variant{"F16", TensorType::kF16, true},
                                         Variant{"BF16", TensorType::kBf16, true},
                                         Variant{"UntiedHead", TensorType::kBf16, false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::engine
