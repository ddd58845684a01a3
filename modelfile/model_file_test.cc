// Opening whole models: what is read, damage, digests, and the sizes of the default model.
#include "modelfile/model_file.h"

#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "modelfile/limits.h"
#include "modelfile/testing/smallest_llama.h"

namespace baton::modelfile {
namespace {

using ::testing::HasSubstr;

TEST(ParseGguf, ReadsConfigAndTokenizer) {
  const std::vector<uint8_t> bytes = TinyLlama();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelConfig& config = (*file)->config();
  EXPECT_EQ(config.name, "tiny llama");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn_size, 96);
  EXPECT_EQ(config.vocab_size, kTinyVocabSize);
  EXPECT_EQ(config.context_length, 256);
  EXPECT_EQ(config.rope_theta, 10000.0f);
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
  EXPECT_TRUE(config.rope_interleaved);
  const TokenizerSpec& tokenizer = (*file)->tokenizer();
  EXPECT_EQ(tokenizer.model, "gpt2");
  EXPECT_EQ(tokenizer.tokens.size(), 258u);
  EXPECT_EQ(tokenizer.tokens[kTinyFirstByteToken + ' '], "\xC4\xA0");
  EXPECT_EQ(tokenizer.token_types[kTinyBos], TokenType::kControl);
  EXPECT_EQ(tokenizer.token_types[kTinyFirstByteToken], TokenType::kNormal);
  EXPECT_EQ(tokenizer.bos_id, kTinyBos);
  EXPECT_EQ(tokenizer.eos_id, kTinyEos);
  EXPECT_EQ(tokenizer.padding_id, -1);
  EXPECT_FALSE(tokenizer.add_bos);
  EXPECT_EQ((*file)->Find("absent"), nullptr);
  ASSERT_NE((*file)->Find("blk.1.ffn_down.weight"), nullptr);
  EXPECT_EQ((*file)->Find("blk.1.ffn_down.weight")->cols, 96);
}

TEST(ParseGguf, EveryTensorTypeAndASeparateHead) {
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBf16, TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1,
        TensorType::kQ5_0, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K}) {
    const int32_t size = std::max(64, TensorBlockElements(type));
    const auto bytes = TinyLlama(
        {.hidden_size = size, .ffn_size = size, .matrix_type = type, .embedding_type = type, .tied_head = false});
    const auto file = Parse(bytes);
    ASSERT_TRUE(file.ok()) << file.status();
    const TensorView* head = (*file)->Find("output.weight");
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(head->type, type);
    EXPECT_EQ(head->bytes,
              static_cast<size_t>(head->rows * head->cols / TensorBlockElements(type)) * TensorBlockBytes(type));
  }
}

TEST(ParseGguf, TruncationAtEveryByteIsAnError) {
  const std::vector<uint8_t> bytes = TinyLlama(Smallest());
  ASSERT_TRUE(Parse(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(Parse(cut).status().code(), kInvalid) << "cut to " << size;
  }
}

TEST(ParseGguf, RandomByteFlipsNeverReadOutsideTheFile) {
  constexpr uint64_t kSeed = 20240611;
  SCOPED_TRACE(kSeed);
  SeededRandom random(kSeed);
  const std::vector<uint8_t> good = TinyLlama(Smallest());
  int opened = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<uint8_t> bytes = good;
    for (uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      bytes[random.Below(bytes.size())] = static_cast<uint8_t>(random.Next64());
    }
    const auto file = Parse(bytes);
    file.ok() ? ++opened : ++refused;
    if (!file.ok()) continue;
    for (const TensorView& tensor : (*file)->tensors()) {
      EXPECT_GE(tensor.data, bytes.data());
      EXPECT_LE(tensor.data + tensor.bytes, bytes.data() + bytes.size());
    }
  }
  // Some flips must pass and some must fail: weights may hold any value, but the structure may not.
  EXPECT_GT(opened, 100);
  EXPECT_GT(refused, 100);
}

TEST(WeightsDigest, DependsOnNamesShapesTypesAndBytesAlone) {
  const auto digest = [](const std::vector<uint8_t>& bytes) {
    const auto file = Parse(bytes);
    EXPECT_TRUE(file.ok()) << file.status();
    return (*file)->WeightsDigest();
  };
  const std::vector<uint8_t> base = TinyLlama(Smallest());
  EXPECT_EQ(digest(base), digest(base));
  EXPECT_EQ(digest(base), digest(WithU32("llama.context_length", 99)));
  std::vector<uint8_t> changed = base;
  changed.back() ^= 1;
  EXPECT_NE(digest(base), digest(changed));
  // The same bytes with another name, shape, type and place in the file.
  const auto with = [&](const std::vector<GgufTensorSpec>& tensors) {
    TinyLlamaOptions options = Smallest();
    options.leave_out = {"output.weight"};
    GgufWriter writer = TinyLlamaWriter(options);
    for (const GgufTensorSpec& tensor : tensors) writer.AddTensor(tensor);
    return digest(writer.Finish());
  };
  const std::vector<uint8_t> data(64, 7);
  const GgufTensorSpec plain = {.name = "output.weight", .rows = 1, .cols = 16, .bytes = data};
  EXPECT_NE(with({plain}), digest(base));
  EXPECT_NE(with({plain}), with({{.name = "output.weight", .rows = 2, .cols = 8, .bytes = data}}));
  EXPECT_NE(with({plain}), with({{.name = "output.weight", .type = TensorType::kF16, .cols = 32, .bytes = data}}));
}

TEST(WeightsDigest, DoesNotDependOnTheOrderOfTensors) {
  const TinyLlamaOptions options = Smallest({"output_norm.weight", "blk.0.ffn_norm.weight"});
  const std::vector<float> a(32, 1.0f), b(32, 2.0f);
  const auto one = TinyLlamaWriter(options)
                       .AddF32Tensor("output_norm.weight", 1, 32, a)
                       .AddF32Tensor("blk.0.ffn_norm.weight", 1, 32, b)
                       .Finish();
  const auto other = TinyLlamaWriter(options)
                         .AddF32Tensor("blk.0.ffn_norm.weight", 1, 32, b)
                         .AddF32Tensor("output_norm.weight", 1, 32, a)
                         .Finish();
  ASSERT_NE(one, other);
  EXPECT_EQ((*Parse(one))->WeightsDigest(), (*Parse(other))->WeightsDigest());
}

TEST(WeightsDigest, ManyThreadsSeeOneDigest) {
  const std::vector<uint8_t> bytes = TinyLlama();
  const Digest128 expected = (*Parse(bytes))->WeightsDigest();
  const auto file = *Parse(bytes);
  std::vector<Digest128> seen(4);
  std::vector<std::thread> threads;
  for (Digest128& digest : seen) threads.emplace_back([&file, &digest] { digest = file->WeightsDigest(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(seen, ::testing::Each(expected));
}

TEST(DefaultModel, IsSmolLm2) {
  const auto path = ResolveModel(kDefaultModel);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const auto file = OpenModelFile(*path);
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelConfig& config = (*file)->config();
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.layers, 30);
  EXPECT_EQ(config.heads, 9);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.ffn_size, 1536);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.context_length, 8192);
  EXPECT_EQ(config.rope_theta, 100000.0f);
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
  int f32 = 0, q4_1 = 0;
  for (const TensorView& tensor : (*file)->tensors()) {
    f32 += tensor.type == TensorType::kF32;
    q4_1 += tensor.type == TensorType::kQ4_1;
    // The kernels rely on this alignment.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % kDefaultAlignment, 0u) << tensor.name;
  }
  EXPECT_EQ(f32, 61);
  EXPECT_EQ(q4_1, 210);
  EXPECT_EQ((*file)->tensors().size(), 272u);
  EXPECT_EQ((*file)->Find("token_embd.weight")->type, TensorType::kQ8_0);
  EXPECT_EQ((*file)->Find("output.weight"), nullptr);
  const TokenizerSpec& tokenizer = (*file)->tokenizer();
  EXPECT_EQ(tokenizer.model, "gpt2");
  EXPECT_EQ(tokenizer.pre_tokenizer, "smollm");
  EXPECT_EQ(tokenizer.merges.size(), 48900u);
  EXPECT_EQ(tokenizer.tokens[1], "<|im_start|>");
  EXPECT_EQ(tokenizer.bos_id, 1);
  EXPECT_EQ(tokenizer.eos_id, 2);
  EXPECT_EQ(tokenizer.unknown_id, 0);
  EXPECT_EQ(tokenizer.padding_id, 2);
  EXPECT_FALSE(tokenizer.add_bos);
  EXPECT_EQ(tokenizer.space_prefix, SpacePrefix::kNone);
  EXPECT_THAT(tokenizer.chat_template, HasSubstr("<|im_start|>system"));
}

}  // namespace
}  // namespace baton::modelfile
