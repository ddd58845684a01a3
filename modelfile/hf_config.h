// What config.json and generation_config.json of a Hugging Face directory say, checked for sense.
#ifndef BATON_MODELFILE_HF_CONFIG_H_
#define BATON_MODELFILE_HF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/hf_files.h"
#include "modelfile/hf_quantization.h"
#include "modelfile/json_reader.h"
#include "modelfile/model_file.h"

namespace baton::modelfile {

struct HfConfig {
  ModelConfig model;
  // Whether the head is the embedding. None: it is if the weights have no head.
  std::optional<bool> tied_head;
  Fp8Scheme fp8;
  int32_t bos_id = -1;
  std::vector<int32_t> eos_ids;
};

// None when there is no such file.
absl::StatusOr<std::optional<std::string_view>> OpenOptionalHfFile(HfFiles& files, const std::string& name);
// None when there is no such file; INVALID_ARGUMENT, naming it, when it holds anything but a JSON object within
// `max_bytes`.
absl::StatusOr<std::optional<Json>> ReadOptionalHfJson(HfFiles& files, const std::string& name, uint64_t max_bytes);
// The object in config.json. NOT_FOUND when there is none.
absl::StatusOr<Json> OpenHfConfig(HfFiles& files);

// INVALID_ARGUMENT names the key and what it must be; UNIMPLEMENTED names the model type or the variant (RoPE scaling,
// biases, another quantization than FP8, ...) that Baton does not run.
absl::StatusOr<HfConfig> ReadHfConfig(const Json& config);

struct HfGeneration {
  SamplingDefaults sampling;
  std::vector<int32_t> eos_ids;  // empty: those of config.json hold
};

// As in transformers, filters and temperature hold only if do_sample is true; the default of temperature is then 1.
absl::StatusOr<HfGeneration> ReadHfGeneration(const Json& generation);

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_HF_CONFIG_H_
