// The tensors of a Hugging Face directory, by the engine's names.
#ifndef BATON_MODELFILE_HF_WEIGHTS_H_
#define BATON_MODELFILE_HF_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/hf_config.h"
#include "modelfile/hf_files.h"
#include "modelfile/tensor_view.h"

namespace baton::modelfile {

struct HfWeights {
  // Views into the bytes of the files.
  std::vector<TensorView> tensors;
  // What the scales of FP8 matrices point to.
  std::vector<std::vector<float>> scales;
};

// A head that config.json ties to the embedding is left out.
absl::StatusOr<HfWeights> ReadHfWeights(const HfConfig& config, HfFiles& files);

// Every tensor of the files with weights by its own name, of whatever type and shape, and the bytes of these files.
struct HfStoredWeights {
  std::vector<StoredTensor> tensors;
  uint64_t file_bytes = 0;
};
// Checks each file by itself, and not whether the index agrees with them.
absl::StatusOr<HfStoredWeights> ListHfWeights(HfFiles& files);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_WEIGHTS_H_
