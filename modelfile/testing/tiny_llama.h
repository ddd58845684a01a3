// A complete llama model of a few kilobytes with random weights: for tests and fuzz corpora.
#ifndef BATON_MODELFILE_TESTING_TINY_LLAMA_H_
#define BATON_MODELFILE_TESTING_TINY_LLAMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "modelfile/tensor_view.h"
#include "modelfile/testing/gguf_writer.h"

namespace baton::modelfile {

// Ids of the tiny tokenizer (byte-level BPE without merges): the byte b is kTinyFirstByteToken + b.
inline constexpr int32_t kTinyEos = 0;
inline constexpr int32_t kTinyBos = 1;
inline constexpr int32_t kTinyFirstByteToken = 2;
inline constexpr int32_t kTinyVocabSize = 258;

struct TinyLlamaOptions {
  int32_t layers = 2;
  // The sizes of rows must be multiples of 32 if the types are quantized.
  int32_t hidden_size = 64;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t ffn_size = 96;
  // A smaller vocabulary than kTinyVocabSize has no token for the last bytes; a larger one has filler tokens.
  int32_t vocab_size = kTinyVocabSize;
  int32_t context_length = 256;
  TensorType matrix_type = TensorType::kQ4_1;
  TensorType embedding_type = TensorType::kQ8_0;
  // If false, the file has an output.weight of embedding_type.
  bool tied_head = true;
  bool tokenizer = true;
  // The same seed gives the same bytes.
  uint64_t seed = 1;
  // Keys and tensors that are not written, so that a test can add its own.
  std::vector<std::string> leave_out = {};
};

GgufWriter TinyLlamaWriter(const TinyLlamaOptions& options);

inline std::vector<uint8_t> TinyLlama(const TinyLlamaOptions& options = {}) {
  return TinyLlamaWriter(options).Finish();
}

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TESTING_TINY_LLAMA_H_
