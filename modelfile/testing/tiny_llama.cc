#include "modelfile/testing/tiny_llama.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/random.h"
#include "modelfile/tokenizer_spec.h"

namespace baton::modelfile {
namespace {

// Works for values below 65504. Flushes values below 2^-14 to zero and cuts instead of rounding.
uint16_t ToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127 + 15;
  if (exponent <= 0) return sign;
  BATON_CHECK(exponent < 31);
  return static_cast<uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3FF));
}

// GPT-2's printable character for a byte, as UTF-8: the byte itself if it is printable, else one from U+0100 on.
std::string ByteToken(int byte) {
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

class Builder {
 public:
  explicit Builder(const TinyLlamaOptions& options) : options_(options), random_(options.seed) {}

  GgufWriter Run() {
    AddConfig();
    if (options_.tokenizer) AddTokenizer();
    AddTensors();
    return std::move(writer_);
  }

 private:
  bool Wanted(std::string_view name) const {
    return std::find(options_.leave_out.begin(), options_.leave_out.end(), name) == options_.leave_out.end();
  }
  void AddU32(std::string_view key, int32_t value) {
    if (Wanted(key)) writer_.AddU32(key, static_cast<uint32_t>(value));
  }
  void AddF32(std::string_view key, float value) {
    if (Wanted(key)) writer_.AddF32(key, value);
  }
  void AddString(std::string_view key, std::string_view value) {
    if (Wanted(key)) writer_.AddString(key, value);
  }
  // In [-1, 1).
  float NextFloat() { return static_cast<float>(random_.Next64() >> 40) * 0x1p-23f - 1.0f; }

  void AddConfig();
  void AddTokenizer();
  void AddTensors();
  void AddNorm(const std::string& name);
  void AddMatrix(const std::string& name, TensorType type, int32_t rows, int32_t cols);
  void AppendFloat(std::vector<uint8_t>* out, TensorType type, float value);
  void AppendBlock(std::vector<uint8_t>* out, TensorType type, float amplitude);

  const TinyLlamaOptions& options_;
  SeededRandom random_;
  GgufWriter writer_;
};

void Builder::AddConfig() {
  AddString("general.architecture", "llama");
  AddString("general.name", "tiny llama");
  AddU32("llama.block_count", options_.layers);
  AddU32("llama.context_length", options_.context_length);
  AddU32("llama.embedding_length", options_.hidden_size);
  AddU32("llama.feed_forward_length", options_.ffn_size);
  AddU32("llama.attention.head_count", options_.heads);
  AddU32("llama.attention.head_count_kv", options_.kv_heads);
  AddU32("llama.rope.dimension_count", options_.hidden_size / options_.heads);
  AddF32("llama.rope.freq_base", 10000.0f);
  AddF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

void Builder::AddTokenizer() {
  AddString("tokenizer.ggml.model", "gpt2");
  AddString("tokenizer.ggml.pre", "smollm");
  std::vector<std::string> tokens = {"<|end|>", "<|start|>"};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteToken(byte));
  while (static_cast<int32_t>(tokens.size()) < options_.vocab_size) {
    tokens.push_back(absl::StrCat("filler", tokens.size()));
  }
  tokens.resize(static_cast<size_t>(options_.vocab_size));
  std::vector<int32_t> types(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  for (const int32_t id : {kTinyEos, kTinyBos}) {
    if (id < options_.vocab_size) types[static_cast<size_t>(id)] = static_cast<int32_t>(TokenType::kControl);
  }
  if (Wanted("tokenizer.ggml.tokens")) writer_.AddStringArray("tokenizer.ggml.tokens", tokens);
  if (Wanted("tokenizer.ggml.token_type")) writer_.AddI32Array("tokenizer.ggml.token_type", types);
  if (Wanted("tokenizer.ggml.merges")) writer_.AddStringArray("tokenizer.ggml.merges", {});
  AddU32("tokenizer.ggml.bos_token_id", kTinyBos);
  AddU32("tokenizer.ggml.eos_token_id", kTinyEos);
}

void Builder::AppendFloat(std::vector<uint8_t>* out, TensorType type, float value) {
  switch (type) {
    case TensorType::kF32:
      return AppendLittleEndian(out, value);
    case TensorType::kF16:
      return AppendLittleEndian(out, ToHalf(value));
    case TensorType::kBf16:
      return AppendLittleEndian(out, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    default:
      BATON_CHECK(false) << "not a float type";
  }
}

// One block of random weights of about +-amplitude. Its scales map the largest quant to that amplitude.
void Builder::AppendBlock(std::vector<uint8_t>* out, TensorType type, float amplitude) {
  // The largest quant and the largest 6-bit or 8-bit factor. Unsigned quants also have a minimum that centres them.
  float steps = 7.5f, factor = 1.0f;
  bool has_minimum = false;
  switch (type) {
    case TensorType::kQ8_0:
      steps = 127.0f;
      break;
    case TensorType::kQ5_0:
      steps = 15.5f;
      break;
    case TensorType::kQ4_1:
      has_minimum = true;
      break;
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      steps = type == TensorType::kQ4_K ? 7.5f : 15.5f;
      factor = 63.0f;
      has_minimum = true;
      break;
    case TensorType::kQ6_K:
      steps = 31.5f;
      factor = 127.0f;
      break;
    default:
      break;
  }
  const float scale = amplitude * (0.75f + 0.25f * NextFloat()) / (steps * factor);
  const bool scale_is_last = type == TensorType::kQ6_K;
  if (!scale_is_last) AppendLittleEndian(out, ToHalf(scale));
  // Q4_1 adds its minimum, the other types subtract it.
  if (has_minimum) AppendLittleEndian(out, ToHalf((type == TensorType::kQ4_1 ? -scale : scale) * steps));
  const size_t scale_bytes = has_minimum ? 4 : 2;
  for (size_t i = scale_bytes; i < TensorBlockBytes(type); ++i) {
    out->push_back(static_cast<uint8_t>(random_.Next64() >> 56));
  }
  if (scale_is_last) AppendLittleEndian(out, ToHalf(scale));
}

void Builder::AddMatrix(const std::string& name, TensorType type, int32_t rows, int32_t cols) {
  if (!Wanted(name)) return;
  const int block = TensorBlockElements(type);
  BATON_CHECK(cols % block == 0) << name << " has rows of " << cols;
  // Keeps the variance of a matrix-vector product near that of its input.
  const float amplitude = std::sqrt(3.0f / static_cast<float>(cols));
  GgufTensorSpec tensor = {.name = name, .type = type, .rows = rows, .cols = cols};
  for (int64_t i = 0; i < int64_t{rows} * cols; i += block) {
    if (block == 1) {
      AppendFloat(&tensor.bytes, type, amplitude * NextFloat());
    } else {
      AppendBlock(&tensor.bytes, type, amplitude);
    }
  }
  writer_.AddTensor(std::move(tensor));
}

void Builder::AddNorm(const std::string& name) {
  std::vector<float> weights(static_cast<size_t>(options_.hidden_size));
  for (float& weight : weights) weight = 1.0f + 0.25f * NextFloat();
  if (Wanted(name)) writer_.AddF32Tensor(name, 1, options_.hidden_size, weights);
}

void Builder::AddTensors() {
  const int32_t hidden = options_.hidden_size;
  const int32_t kv = hidden / options_.heads * options_.kv_heads;
  AddMatrix("token_embd.weight", options_.embedding_type, options_.vocab_size, hidden);
  for (int32_t layer = 0; layer < options_.layers; ++layer) {
    const std::string prefix = absl::StrCat("blk.", layer, ".");
    AddNorm(prefix + "attn_norm.weight");
    AddMatrix(prefix + "attn_q.weight", options_.matrix_type, hidden, hidden);
    AddMatrix(prefix + "attn_k.weight", options_.matrix_type, kv, hidden);
    AddMatrix(prefix + "attn_v.weight", options_.matrix_type, kv, hidden);
    AddMatrix(prefix + "attn_output.weight", options_.matrix_type, hidden, hidden);
    AddNorm(prefix + "ffn_norm.weight");
    AddMatrix(prefix + "ffn_gate.weight", options_.matrix_type, options_.ffn_size, hidden);
    AddMatrix(prefix + "ffn_up.weight", options_.matrix_type, options_.ffn_size, hidden);
    AddMatrix(prefix + "ffn_down.weight", options_.matrix_type, hidden, options_.ffn_size);
  }
  AddNorm("output_norm.weight");
  if (!options_.tied_head) AddMatrix("output.weight", options_.embedding_type, options_.vocab_size, hidden);
}

}  // namespace

GgufWriter TinyLlamaWriter(const TinyLlamaOptions& options) { return Builder(options).Run(); }

}  // namespace baton::modelfile
