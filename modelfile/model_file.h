// A model as it lies on disk: configuration, tensors as views into mapped memory, tokenizer metadata.
// Every length, offset and count that a file states is checked against the file and a named limit before use.
#ifndef BATON_MODELFILE_MODEL_FILE_H_
#define BATON_MODELFILE_MODEL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/digest.h"

namespace baton::modelfile {

// The K types are those of ggml's "k-quants": 256 elements share a scale, 16 or 32 of them a small integer factor.
enum class TensorType : uint8_t { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ4_K, kQ5_K, kQ6_K };

std::string_view TensorTypeName(TensorType type);

// Elements of a row are stored in blocks of this many (1 for float types), each of TensorBlockBytes.
int TensorBlockElements(TensorType type);
size_t TensorBlockBytes(TensorType type);

// A matrix [rows, cols], cols contiguous, or a vector (rows == 1). `cols` is a multiple of the block's elements.
// The data lives as long as the ModelFile.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

enum class Architecture : uint8_t { kLlama, kGemma3 };

// "llama", "gemma3": as GGUF names it.
std::string_view ArchitectureName(Architecture architecture);

// What joins gate and up projection: act(gate) * up.
enum class Activation : uint8_t {
  kSwiGlu,     // x / (1 + exp(-x))
  kGeGluTanh,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
};

// A decoder-only transformer as data: what an architecture's members differ in is a field here, so that the engine asks
// for features and never for a name.
struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::string name;
  int32_t hidden_size = 0;
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  // Of query, key and value; heads * head_dim need not be hidden_size.
  int32_t head_dim = 0;
  int32_t ffn_size = 0;
  int32_t vocab_size = 0;
  // Longest prompt plus output, in tokens.
  int32_t context_length = 0;
  float rms_norm_eps = 1e-5f;

  // RoPE of layers that see everything: element pair i of a head turns by position / rope_scaling_factor *
  // rope_theta^(-2i / head_dim).
  float rope_theta = 10000.0f;
  float rope_scaling_factor = 1.0f;
  // Llama-family GGUF stores the rows of q and k permuted, so that RoPE turns neighbours (2i, 2i+1) instead of
  // (i, i + head_dim / 2).
  bool rope_interleaved = true;

  // A row of a sliding layer sees this many positions, its own among them, and turns by sliding_rope_theta, unscaled.
  // 0: no layer slides.
  int32_t sliding_window = 0;
  float sliding_rope_theta = 10000.0f;
  // By layer; empty when none slides.
  std::vector<bool> sliding_layers;
  bool Slides(int32_t layer) const { return !sliding_layers.empty() && sliding_layers[static_cast<size_t>(layer)]; }

  // What q * k is multiplied with before softmax, and the embedding before the first layer.
  float attention_scale = 0;
  float embedding_scale = 1.0f;
  Activation activation = Activation::kSwiGlu;
  // RMS norm over every head of q and of k, before RoPE.
  bool query_key_norm = false;
  // RMS norm of what attention and feed-forward add to the residual stream ("sandwich").
  bool post_norms = false;
  // Norms multiply by 1 + weight. GGUF files have the 1 added in; Gemma's original checkpoints do not.
  bool norm_weight_plus_one = false;
};

// GGUF's token types.
enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Where a SentencePiece-style tokenizer puts a space before text: nowhere, before a text that does not begin with one,
// or before every piece of it between special tokens.
enum class SpacePrefix : uint8_t { kNone, kFirst, kEach };

struct TokenizerSpec {
  std::string model;          // "gpt2" is byte-level BPE, "llama" SentencePiece-style BPE
  std::string pre_tokenizer;  // of byte-level BPE: "smollm", "llama-bpe", ...
  std::vector<std::string> tokens;
  std::vector<TokenType> token_types;  // as many as tokens
  std::vector<std::string> merges;     // "left right", best first
  std::vector<float> scores;           // "llama" without merges: as many as tokens, greater is better
  int32_t bos_id = -1;                 // -1: none
  int32_t eos_id = -1;
  std::vector<int32_t> eos_ids;  // every token that ends an answer, eos_id among them
  int32_t unknown_id = -1;
  int32_t padding_id = -1;
  bool add_bos = false;
  SpacePrefix space_prefix = SpacePrefix::kNone;
  // Words that are tokens are not merged; none: as the pre-tokenizer's family does.
  std::optional<bool> ignore_merges;
  std::string chat_template;  // Jinja; empty: none
};

// How the model's makers want it sampled; what is not set is left to whoever serves it.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// One line of `baton inspect`: arrays are shortened.
struct MetadataEntry {
  std::string key;
  std::string type;
  std::string value;
};

// Immutable after Open; thread-safe.
class ModelFile {
 public:
  virtual ~ModelFile() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const TokenizerSpec& tokenizer() const = 0;
  // Not checked against any range. GGUF files have none.
  virtual const SamplingDefaults& sampling_defaults() const;
  virtual const std::vector<MetadataEntry>& metadata() const = 0;
  virtual const std::vector<TensorView>& tensors() const = 0;
  // By GGUF's name ("blk.0.attn_q.weight"); null when absent.
  virtual const TensorView* Find(std::string_view name) const = 0;
  // Of every tensor's name, type, shape and bytes, in the order of names: part of the fingerprint. The first call reads
  // the whole file, later ones and concurrent ones get its result.
  virtual Digest128 WeightsDigest() const = 0;
};

// Opens a GGUF v3 file or a Hugging Face directory (hf_directory.h). Weights are memory-mapped: no file may be
// shortened while it is open. NOT_FOUND when there is none, INVALID_ARGUMENT with one line that says what is damaged
// and where, UNIMPLEMENTED for an architecture, a variant of it or a tensor type that Baton does not run,
// PERMISSION_DENIED and UNAVAILABLE as the system says. A file without a tokenizer opens: its TokenizerSpec::model is
// empty. Tensor names are checked against the architecture's, their shapes by the engine. Tensor data of a GGUF file is
// aligned to the file's alignment (32 bytes by default, at least 8), of a directory not at all.
absl::StatusOr<std::unique_ptr<ModelFile>> OpenModelFile(const std::string& path);

// A GGUF file over bytes that the caller keeps alive; for tests and fuzzers. Alignment is then relative to `data`.
absl::StatusOr<std::unique_ptr<ModelFile>> ParseGguf(const uint8_t* data, size_t bytes);

// The digest that WeightsDigest gives of these tensors.
Digest128 DigestOfTensors(const std::vector<TensorView>& tensors);

// MODEL of the command line: the path of a GGUF file or of a Hugging Face directory, or a name from the model store
// ($BATON_MODEL_STORE, else $XDG_DATA_HOME/baton/models, else ~/.local/share/baton/models), where NAME.gguf or the
// directory NAME lies. NOT_FOUND says how to fetch it. What contains a slash or ends in ".gguf" is a path; a name is
// looked for in the store first.
absl::StatusOr<std::string> ResolveModel(std::string_view model);

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_MODEL_FILE_H_
