// The scales of FP8 matrices in a Hugging Face directory, on their way from tensors of their own to the matrices.
#ifndef BATON_MODELFILE_HF_FP8_SCALES_H_
#define BATON_MODELFILE_HF_FP8_SCALES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "modelfile/hf_quantization.h"
#include "modelfile/safetensors_reader.h"
#include "modelfile/tensor_view.h"

namespace baton::modelfile {

// A tensor that stands beside a matrix NAME.weight.
struct Fp8Companion {
  // NAME.weight.
  std::string matrix;
  // NAME.weight_scale or NAME.weight_scale_inv. Both are factors of the weights: "inv" is meant of the quantization.
  // Otherwise it is NAME.input_scale or NAME.activation_scale, which Baton does not use.
  bool is_scale = false;
};

// None for any other name.
std::optional<Fp8Companion> FindFp8Companion(std::string_view name);

// Collects the scales of all files, then gives them to their matrices.
class Fp8Scales {
 public:
  explicit Fp8Scales(const Fp8Scheme& scheme) : scheme_(scheme) {}

  // `matrix` is the engine's name of the matrix. The tensor's bytes outlive this. INVALID_ARGUMENT for a second scale.
  absl::Status Add(const std::string& matrix, const SafetensorsTensor& scale, std::string_view file);

  // Sets the scales of every kF8E4M3 matrix. INVALID_ARGUMENT names the matrix that has none, or the scale whose shape,
  // value or matrix is not what the scheme allows; UNIMPLEMENTED its type.
  absl::Status Attach(std::vector<TensorView>* tensors);

  // The floats that the views point to after Attach.
  std::vector<std::vector<float>> TakeValues() { return std::move(values_); }

 private:
  struct Scale {
    SafetensorsTensor tensor;
    std::string file;
  };

  absl::Status AttachOne(const Scale& scale, TensorView* matrix);

  const Fp8Scheme scheme_;
  // By the engine's name of the matrix.
  std::map<std::string, Scale> scales_;
  std::vector<std::vector<float>> values_;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_FP8_SCALES_H_
