// The tiny llama of tiny_llama.h as a Hugging Face directory with FP8 matrices, and its twin without them.
#ifndef BATON_MODELFILE_TESTING_TINY_FP8_H_
#define BATON_MODELFILE_TESTING_TINY_FP8_H_

#include <cstdint>
#include <string>
#include <vector>

#include "modelfile/testing/tiny_hf.h"

namespace baton::modelfile {

// What an element of F8_E4M3 stands for, by the words of its definition. NaN for 0x7f and 0xff.
float ValueOfFp8(uint8_t byte);

enum class Fp8Layout {
  kTensor,   // quant_method "fp8": weight_scale [1] in F32, beside an input_scale
  kChannel,  // quant_method "compressed-tensors": weight_scale [rows, 1] in BF16
  kBlock,    // quant_method "fp8" with blocks of 128: weight_scale_inv in F32
};

struct TinyFp8Options {
  Fp8Layout layout = Fp8Layout::kBlock;
  // Its matrix_type must be kF32. Matrices of layers become FP8, embedding and head stay.
  TinyLlamaOptions model = {.layers = 2,
                            .hidden_size = 160,
                            .heads = 5,
                            .kv_heads = 1,
                            .ffn_size = 192,
                            .matrix_type = TensorType::kF32,
                            .embedding_type = TensorType::kF32};
  // A matrix that stays as it is, such as "model.layers.0.mlp.down_proj.weight".
  std::string plain = {};
};

HfContents TinyFp8(const TinyFp8Options& options);
std::vector<SafetensorsSpec> TinyFp8Tensors(const TinyFp8Options& options);

// The same model with what each FP8 element stands for, as F32 or rounded to BF16: `dtype` is one of both.
HfContents TinyFp8Twin(const TinyFp8Options& options, const std::string& dtype);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TESTING_TINY_FP8_H_
