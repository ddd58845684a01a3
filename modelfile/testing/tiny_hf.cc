#include "modelfile/testing/tiny_hf.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "modelfile/json_reader.h"

namespace baton::modelfile {
namespace {

struct NamePair {
  std::string_view engine;
  std::string_view huggingface;
};
constexpr NamePair kNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
};

// Turns "blk.3.attn_q.weight" into "model.layers.3.self_attn.q_proj.weight".
std::string HuggingFaceName(std::string_view engine) {
  std::string prefix;
  if (engine.starts_with("blk.")) {
    const size_t dot = engine.find('.', 4);
    prefix = absl::StrCat("model.layers.", ToAbsl(engine.substr(4, dot - 4)), ".");
    engine.remove_prefix(dot + 1);
  }
  for (const NamePair& pair : kNames) {
    if (pair.engine == engine) return absl::StrCat(prefix, ToAbsl(pair.huggingface));
  }
  BATON_CHECK(false) << "no name for " << engine;
}

std::string DtypeName(TensorType type) {
  BATON_CHECK(TensorBlockElements(type) == 1) << "safetensors hold float types";
  return type == TensorType::kF32 ? "F32" : type == TensorType::kF16 ? "F16" : "BF16";
}

// GGUF has the two halves of each head interleaved; transformers has them one after the other.
std::string SplitHalves(const TensorView& tensor, int32_t head_dim) {
  const size_t row_bytes = tensor.bytes / static_cast<size_t>(tensor.rows);
  std::string out(tensor.bytes, '\0');
  for (int64_t row = 0; row < tensor.rows; ++row) {
    const int64_t in_head = row % head_dim;
    const int64_t target = row - in_head + in_head / 2 + (in_head % 2) * (head_dim / 2);
    std::memcpy(out.data() + static_cast<size_t>(target) * row_bytes,
                tensor.data + static_cast<size_t>(row) * row_bytes, row_bytes);
  }
  return out;
}

std::unique_ptr<ModelFile> ParseTiny(const std::vector<uint8_t>& bytes) {
  auto file = ParseGguf(bytes.data(), bytes.size());
  BATON_CHECK(file.ok()) << file.status();
  return *std::move(file);
}

Json ConfigJson(const TinyLlamaOptions& options, const ModelConfig& config) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.kv_heads},
          {"intermediate_size", config.ffn_size},
          {"vocab_size", config.vocab_size},
          {"max_position_embeddings", config.context_length},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"hidden_act", "silu"},
          {"rope_scaling", nullptr},
          {"tie_word_embeddings", options.tied_head},
          {"bos_token_id", kTinyBos},
          {"eos_token_id", kTinyEos}};
}

Json TokenizerJson(const TokenizerSpec& spec) {
  Json vocab = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.token_types[id] == TokenType::kNormal) {
      vocab[spec.tokens[id]] = id;
    } else {
      added.push_back({{"id", id}, {"content", spec.tokens[id]}, {"special", true}, {"normalized", false}});
    }
  }
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({digits, byte_level})}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

}  // namespace

absl::StatusOr<std::string_view> MemoryHfFiles::Open(const std::string& name) {
  const auto it = contents_.find(name);
  if (it == contents_.end()) return absl::NotFoundError(absl::StrCat(name, ": there is no such file"));
  return std::string_view(it->second);
}

std::vector<std::string> MemoryHfFiles::WeightFiles() {
  std::vector<std::string> names;
  for (const auto& [name, contents] : contents_) {
    if (name.ends_with(".safetensors")) names.push_back(name);
  }
  return names;
}

std::string WriteSafetensors(const std::vector<SafetensorsSpec>& tensors) {
  Json header = Json::object();
  header["__metadata__"] = {{"format", "pt"}};
  std::string data;
  for (const SafetensorsSpec& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text += ' ';
  const uint64_t size = text.size();
  std::string out(sizeof(size), '\0');
  std::memcpy(out.data(), &size, sizeof(size));
  return out + text + data;
}

std::vector<SafetensorsSpec> TinyHfTensors(const TinyLlamaOptions& options) {
  const std::vector<uint8_t> bytes = TinyLlama(options);
  const std::unique_ptr<ModelFile> file = ParseTiny(bytes);
  std::vector<SafetensorsSpec> tensors;
  for (const TensorView& tensor : file->tensors()) {
    const bool turns = tensor.name.ends_with("attn_q.weight") || tensor.name.ends_with("attn_k.weight");
    SafetensorsSpec spec = {
        .name = HuggingFaceName(tensor.name), .dtype = DtypeName(tensor.type), .shape = {}, .bytes = {}};
    if (tensor.rows > 1) spec.shape.push_back(tensor.rows);
    spec.shape.push_back(tensor.cols);
    spec.bytes = turns ? SplitHalves(tensor, file->config().head_dim)
                       : std::string(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
    tensors.push_back(std::move(spec));
  }
  return tensors;
}

HfContents TinyHf(const TinyLlamaOptions& options) {
  const std::vector<uint8_t> bytes = TinyLlama(options);
  const std::unique_ptr<ModelFile> file = ParseTiny(bytes);
  const Json tokenizer_config = {{"bos_token", "<|start|>"}, {"eos_token", {{"content", "<|end|>"}}}};
  HfContents contents;
  contents["config.json"] = ConfigJson(options, file->config()).dump(2);
  contents["generation_config.json"] = Json({{"eos_token_id", {kTinyEos}}}).dump();
  contents["tokenizer_config.json"] = tokenizer_config.dump();
  contents["model.safetensors"] = WriteSafetensors(TinyHfTensors(options));
  if (options.tokenizer) contents["tokenizer.json"] = TokenizerJson(file->tokenizer()).dump();
  return contents;
}

}  // namespace baton::modelfile
