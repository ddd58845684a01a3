#include "tests/cuda/bench/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/random.h"

namespace baton::engine::cuda {
namespace {

using modelfile::TensorType;
using modelfile::TensorView;

// What is random; behind that many bytes it begins again.
constexpr size_t kRandomBytes = size_t{16} << 20;

void PutU16(uint8_t* to, uint64_t bits) {
  const uint16_t word = static_cast<uint16_t>(bits);
  std::memcpy(to, &word, sizeof(word));
}

// Scales and minima are of the type f16, as their exponent bits say.
void PutBlock(TensorType type, RandomSource& random, uint8_t* to) {
  const uint64_t r = random.Next64();
  const auto put_bytes = [&](size_t offset) {
    for (size_t i = offset; i < modelfile::TensorBlockBytes(type); ++i) to[i] = static_cast<uint8_t>(random.Next64());
  };
  switch (type) {
    case TensorType::kBf16:  // 2^-6 to 2^-5 of either sign.
      return PutU16(to, (r & 0x807f) | 0x3c80);
    case TensorType::kQ8_0:  // 2^-12 to 2^-11, times -128 to 127.
      PutU16(to, 0x0c00 | (r & 0x3ff));
      return put_bytes(2);
    case TensorType::kQ4_1:  // 2^-8 to 2^-7, times 0 to 15, less 2^-5 to 2^-4.
      PutU16(to, 0x1c00 | (r & 0x3ff));
      PutU16(to + 2, 0xa800 | (r & 0x3ff));
      return put_bytes(4);
    default:
      BATON_CHECK(type == TensorType::kF32) << static_cast<int>(type);
  }
  const float one = 1.0f;
  std::memcpy(to, &one, sizeof(one));
}

std::vector<uint8_t> RandomBlocks(TensorType type, size_t bytes) {
  const size_t block = modelfile::TensorBlockBytes(type);
  const size_t random_bytes = std::min(bytes, kRandomBytes / block * block);
  std::vector<uint8_t> blocks(bytes);
  SeededRandom random(1);
  for (size_t at = 0; at < random_bytes; at += block) PutBlock(type, random, blocks.data() + at);
  for (size_t at = random_bytes; at < bytes; at += random_bytes) {
    std::memcpy(blocks.data() + at, blocks.data(), std::min(random_bytes, bytes - at));
  }
  return blocks;
}

modelfile::ModelConfig ConfigOf(const RandomShape& shape) {
  modelfile::ModelConfig config;
  config.name = "random";
  config.hidden_size = shape.hidden;
  config.layers = shape.layers;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.ffn_size = shape.ffn;
  config.vocab_size = shape.vocab;
  config.context_length = shape.context;
  config.rope_theta = 500000.0f;
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return config;
}

class RandomModel final : public modelfile::ModelFile {
 public:
  RandomModel(const RandomShape& shape, TensorType matrices, TensorType vocabulary) : config_(ConfigOf(shape)) {
    const int q = shape.heads * shape.head_dim;
    const int kv = shape.kv_heads * shape.head_dim;
    Add("token_embd.weight", vocabulary, shape.vocab, shape.hidden);
    for (int i = 0; i < shape.layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      Add(prefix + "attn_norm.weight", TensorType::kF32, 1, shape.hidden);
      Add(prefix + "attn_q.weight", matrices, q, shape.hidden);
      Add(prefix + "attn_k.weight", matrices, kv, shape.hidden);
      Add(prefix + "attn_v.weight", matrices, kv, shape.hidden);
      Add(prefix + "attn_output.weight", matrices, shape.hidden, q);
      Add(prefix + "ffn_norm.weight", TensorType::kF32, 1, shape.hidden);
      Add(prefix + "ffn_gate.weight", matrices, shape.ffn, shape.hidden);
      Add(prefix + "ffn_up.weight", matrices, shape.ffn, shape.hidden);
      Add(prefix + "ffn_down.weight", matrices, shape.hidden, shape.ffn);
    }
    Add("output_norm.weight", TensorType::kF32, 1, shape.hidden);
    Add("output.weight", vocabulary, shape.vocab, shape.hidden);
    std::map<TensorType, size_t> most;
    for (const TensorView& tensor : tensors_) most[tensor.type] = std::max(most[tensor.type], tensor.bytes);
    for (const auto& [type, bytes] : most) blocks_[type] = RandomBlocks(type, bytes);
    for (TensorView& tensor : tensors_) tensor.data = blocks_[tensor.type].data();
  }

  const modelfile::ModelConfig& config() const override { return config_; }
  const modelfile::TokenizerSpec& tokenizer() const override { return tokenizer_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* Find(std::string_view name) const override {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& one) { return one.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }
  Digest128 WeightsDigest() const override { return modelfile::DigestOfTensors(tensors_); }

 private:
  void Add(std::string name, TensorType type, int64_t rows, int64_t cols) {
    TensorView view{.name = std::move(name), .type = type, .rows = rows, .cols = cols};
    view.bytes =
        static_cast<size_t>(rows * cols / modelfile::TensorBlockElements(type)) * modelfile::TensorBlockBytes(type);
    tensors_.push_back(std::move(view));
  }

  const modelfile::ModelConfig config_;
  modelfile::TokenizerSpec tokenizer_;
  std::vector<TensorView> tensors_;
  std::map<TensorType, std::vector<uint8_t>> blocks_;
};

}  // namespace

std::string_view BenchWeightsName(BenchWeights weights) {
  constexpr std::string_view kNames[] = {"bf16", "int8", "int4"};
  return kNames[static_cast<size_t>(weights)];
}

std::unique_ptr<modelfile::ModelFile> MakeRandomModel(const RandomShape& shape, BenchWeights weights) {
  constexpr TensorType kMatrices[] = {TensorType::kBf16, TensorType::kQ8_0, TensorType::kQ4_1};
  const TensorType matrices = kMatrices[static_cast<size_t>(weights)];
  const TensorType vocabulary = matrices == TensorType::kBf16 ? matrices : TensorType::kQ8_0;
  return std::make_unique<RandomModel>(shape, matrices, vocabulary);
}

}  // namespace baton::engine::cuda
