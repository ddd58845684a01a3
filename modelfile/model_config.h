// A decoder-only transformer as data: whatever differs between models is a field here, so that the engine asks for
// features and never for a model by name.
#ifndef BATON_MODELFILE_MODEL_CONFIG_H_
#define BATON_MODELFILE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::modelfile {

// The function that joins gate and up projection: act(gate) * up.
enum class Activation : uint8_t {
  kSwiGlu,     // x / (1 + exp(-x))
  kGeGluTanh,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
};

struct ModelConfig {
  // GGUF's name of it ("llama"), in static storage. Empty for synthetic models.
  std::string_view architecture;
  std::string name;
  int32_t hidden_size = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  // The size of query, key and value; heads * head_dim need not be hidden_size.
  int32_t head_dim = 0;
  int32_t ffn_size = 0;
  int32_t vocab_size = 0;
  // Longest prompt plus output, in tokens.
  int32_t context_length = 0;
  float rms_norm_eps = 1e-5f;

  // RoPE of full layers rotates element pair i of a head by position / rope_scaling_factor *
  // rope_theta^(-2i / head_dim).
  float rope_theta = 10000.0f;
  float rope_scaling_factor = 1.0f;
  // GGUF files of the Llama family permute the rows of q and k, so that RoPE rotates neighbours (2i, 2i+1) instead of
  // (i, i + head_dim / 2).
  bool rope_interleaved = true;

  // A row of a sliding layer sees this many positions, its own among them. Its RoPE has the base sliding_rope_theta and
  // no scaling. 0: no layer slides.
  int32_t sliding_window = 0;
  float sliding_rope_theta = 10000.0f;
  // By layer; empty when none slides.
  std::vector<bool> sliding_layers;
  bool Slides(int32_t layer) const { return !sliding_layers.empty() && sliding_layers[static_cast<size_t>(layer)]; }

  // The factors of q * k before softmax and of the embedding before the first layer.
  float attention_scale = 0;
  float embedding_scale = 1.0f;
  Activation activation = Activation::kSwiGlu;
  // RMS norm over every head of q and of k, before RoPE.
  bool query_key_norm = false;
  // RMS norm of the outputs of attention and feed-forward before they join the residual stream ("sandwich").
  bool post_norms = false;
  // Norms multiply by 1 + weight. GGUF files include the 1 in the weight; Gemma's original checkpoints do not.
  bool norm_weight_plus_one = false;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MODEL_CONFIG_H_
