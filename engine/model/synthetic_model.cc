#include "engine/model/synthetic_model.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "common/random.h"

namespace baton::engine {
namespace {

using modelfile::TensorType;

void PutU16(std::vector<uint8_t>& out, uint32_t bits) {
  out.push_back(static_cast<uint8_t>(bits));
  out.push_back(static_cast<uint8_t>(bits >> 8));
}

// Appends one storage block of random weights of about +-0.1. The ranges are set by exponent bits.
void PutBlock(std::vector<uint8_t>& out, TensorType type, RandomSource& random) {
  const uint64_t r = random.Next64();
  const uint32_t mantissa = static_cast<uint32_t>(r & 0x3ff);
  const uint32_t sign = static_cast<uint32_t>(r >> 63) << 15;
  const auto bytes = [&](int n) {
    for (int i = 0; i < n; ++i) out.push_back(static_cast<uint8_t>(random.Next64()));
  };
  switch (type) {
    case TensorType::kF32:
      PutU16(out, static_cast<uint32_t>(r >> 16) & 0xffff);
      PutU16(out, sign | 0x3d80 | (mantissa & 0x7f));
      return;
    case TensorType::kF16:
      return PutU16(out, sign | 0x2c00 | mantissa);
    case TensorType::kBf16:
      return PutU16(out, sign | 0x3d80 | (mantissa & 0x7f));
    case TensorType::kQ8_0:
      PutU16(out, 0x1000 | mantissa);
      return bytes(32);
    case TensorType::kQ4_0:
      PutU16(out, 0x2000 | mantissa);
      return bytes(16);
    case TensorType::kQ4_1:
      PutU16(out, 0x2000 | mantissa);
      PutU16(out, 0xac00 | (mantissa ^ 0x155));
      return bytes(16);
    case TensorType::kQ5_0:
      PutU16(out, 0x1c00 | mantissa);
      return bytes(20);
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      PutU16(out, (type == TensorType::kQ4_K ? 0x0800 : 0x0400) | mantissa);
      PutU16(out, 0x1400 | (mantissa ^ 0x155));
      return bytes(static_cast<int>(TensorBlockBytes(type)) - 4);
    case TensorType::kQ6_K:
      bytes(static_cast<int>(TensorBlockBytes(type)) - 2);
      return PutU16(out, 0x0400 | mantissa);
    case TensorType::kF8E4M3:
      // 2 to 240, of either sign: the scales are about 2^-11.
      out.push_back(static_cast<uint8_t>(0x40 | (r & 0x3f) % 0x38 | (r >> 63) << 7));
      return;
  }
}

class SyntheticModel final : public modelfile::ModelFile {
 public:
  explicit SyntheticModel(const SyntheticSpec& spec) : random_(spec.seed), fp8_blocks_(spec.fp8_blocks) {
    config_.name = "synthetic";
    config_.hidden_size = spec.hidden_size;
    config_.layers = spec.layers;
    config_.heads = spec.heads;
    config_.kv_heads = spec.kv_heads;
    config_.head_dim = spec.head_dim;
    config_.ffn_size = spec.ffn_size;
    config_.vocab_size = spec.vocab_size;
    config_.context_length = spec.context_length;
    config_.rope_interleaved = spec.rope_interleaved;
    config_.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
    config_.rope_scaling_factor = spec.rope_scaling_factor;
    config_.sliding_window = spec.sliding_window;
    for (int i = 0; spec.sliding_window > 0 && i < spec.layers; ++i) {
      config_.sliding_layers.push_back((i + 1) % spec.full_every != 0);
    }
    config_.sliding_rope_theta = 500.0f;
    config_.query_key_norm = config_.post_norms = config_.norm_weight_plus_one = spec.gemma;
    if (spec.gemma) {
      config_.activation = modelfile::Activation::kGeGluTanh;
      config_.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_size));
      config_.attention_scale = 0.125f;
    }
    const int q = spec.heads * spec.head_dim;
    const int kv = spec.kv_heads * spec.head_dim;
    Add("token_embd.weight", spec.embedding, spec.vocab_size, spec.hidden_size);
    for (int i = 0; i < spec.layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      Add(prefix + "attn_norm.weight", TensorType::kF32, 1, spec.hidden_size);
      Add(prefix + "attn_q.weight", spec.attention, q, spec.hidden_size);
      Add(prefix + "attn_k.weight", spec.attention, kv, spec.hidden_size);
      Add(prefix + "attn_v.weight", spec.attention, kv, spec.hidden_size);
      Add(prefix + "attn_output.weight", spec.attention, spec.hidden_size, q);
      Add(prefix + "ffn_norm.weight", TensorType::kF32, 1, spec.hidden_size);
      if (spec.gemma) {
        Add(prefix + "attn_q_norm.weight", TensorType::kF32, 1, spec.head_dim);
        Add(prefix + "attn_k_norm.weight", TensorType::kF32, 1, spec.head_dim);
        Add(prefix + "post_attention_norm.weight", TensorType::kF32, 1, spec.hidden_size);
        Add(prefix + "post_ffw_norm.weight", TensorType::kF32, 1, spec.hidden_size);
      }
      Add(prefix + "ffn_gate.weight", spec.ffn, spec.ffn_size, spec.hidden_size);
      Add(prefix + "ffn_up.weight", spec.ffn, spec.ffn_size, spec.hidden_size);
      Add(prefix + "ffn_down.weight", spec.ffn, spec.hidden_size, spec.ffn_size);
    }
    Add("output_norm.weight", TensorType::kF32, 1, spec.hidden_size);
  }

  const modelfile::ModelConfig& config() const override { return config_; }
  const modelfile::TokenizerSpec& tokenizer() const override { return tokenizer_; }
  const std::vector<modelfile::TensorView>& tensors() const override { return tensors_; }
  const modelfile::TensorView* Find(std::string_view name) const override {
    for (const modelfile::TensorView& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  Digest128 WeightsDigest() const override {
    Digest128 digest;
    for (const modelfile::TensorView& t : tensors_) digest = DigestChain(digest, t.data, t.bytes);
    return digest;
  }

 private:
  void Add(std::string name, TensorType type, int64_t rows, int64_t cols) {
    std::vector<uint8_t> data;
    for (int64_t i = 0; i < rows * cols / TensorBlockElements(type); ++i) PutBlock(data, type, random_);
    modelfile::TensorView view{.name = std::move(name), .type = type, .rows = rows, .cols = cols};
    view.bytes = data.size();
    view.data = data.data();
    if (type == TensorType::kF8E4M3) view.scales = MakeScales(rows, cols);
    // Moving a vector keeps its buffer where it is.
    data_.push_back(std::move(data));
    tensors_.push_back(std::move(view));
  }

  // From 2^-12 to 2^-10.
  modelfile::BlockScales MakeScales(int64_t rows, int64_t cols) {
    modelfile::BlockScales scales{.values = nullptr, .rows = 1, .cols = cols};
    if (fp8_blocks_) scales.rows = scales.cols = 128;
    const int64_t count = (rows + scales.rows - 1) / scales.rows * ((cols + scales.cols - 1) / scales.cols);
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(std::ldexp(1.0f + 3.0f * static_cast<float>(random_.Next64() >> 40) * 0x1p-24f, -12));
    }
    scales.values = values.data();
    scales_.push_back(std::move(values));
    return scales;
  }

  SeededRandom random_;
  const bool fp8_blocks_;
  modelfile::ModelConfig config_;
  modelfile::TokenizerSpec tokenizer_;
  std::vector<std::vector<uint8_t>> data_;
  std::vector<std::vector<float>> scales_;
  std::vector<modelfile::TensorView> tensors_;
};

}  // namespace

std::unique_ptr<modelfile::ModelFile> MakeSyntheticModel(const SyntheticSpec& spec) {
  return std::make_unique<SyntheticModel>(spec);
}

}  // namespace baton::engine
