#include "modelfile/hf_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/hf_fp8_scales.h"
#include "modelfile/json_reader.h"
#include "modelfile/limits.h"
#include "modelfile/safetensors_reader.h"
#include "modelfile/tensor_names.h"

namespace baton::modelfile {
namespace {

constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kSingleFile[] = "model.safetensors";
constexpr std::string_view kWeightSuffix = ".safetensors";
constexpr std::string_view kHead = "output.weight";

// Names come from a file, and none of them may lead out of the directory.
bool IsPlainFileName(std::string_view name) {
  return name.size() <= kMaxHfFileNameBytes && name.ends_with(kWeightSuffix) && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
         });
}

std::optional<TensorType> TypeOf(std::string_view dtype) {
  if (dtype == "F32") return TensorType::kF32;
  if (dtype == "F16") return TensorType::kF16;
  if (dtype == "BF16") return TensorType::kBf16;
  if (dtype == "F8_E4M3") return TensorType::kF8E4M3;
  return std::nullopt;
}

// Maps Hugging Face's name of a tensor to the file that has it by the index.
using WeightMap = std::map<std::string, std::string>;

absl::StatusOr<WeightMap> ReadIndex(std::string_view text) {
  BATON_ASSIGN_OR_RETURN(const Json index, ParseJsonObject(text, kIndexFile, kMaxHfIndexBytes));
  const JsonFields fields(index, kIndexFile);
  BATON_ASSIGN_OR_RETURN(const Json* entries, fields.Object("weight_map"));
  if (entries == nullptr || entries->size() > kMaxTensors) {
    return fields.Refuse("weight_map", absl::StrCat("an object of at most ", kMaxTensors, " tensors"));
  }
  WeightMap map;
  for (const auto& [tensor, file] : entries->items()) {
    const std::string* name = file.get_ptr<const std::string*>();
    if (name == nullptr || !IsPlainFileName(*name)) {
      return absl::InvalidArgumentError(absl::StrCat(kIndexFile, ": tensor ", ShowText(tensor), " is in file ",
                                                     ShowJson(file), ", must be a plain name that ends in ",
                                                     ToAbsl(kWeightSuffix), "; correct the file"));
    }
    map[tensor] = *name;
  }
  return map;
}

absl::StatusOr<std::vector<std::string>> FindWeightFiles(HfFiles& files, WeightMap* map) {
  const absl::StatusOr<std::string_view> index = files.Open(kIndexFile);
  if (index.ok()) {
    BATON_ASSIGN_OR_RETURN(*map, ReadIndex(*index));
    std::vector<std::string> names;
    for (const auto& [tensor, file] : *map) names.push_back(file);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }
  if (index.status().code() != absl::StatusCode::kNotFound) return index.status();
  std::vector<std::string> names = files.WeightFiles();
  if (std::find(names.begin(), names.end(), kSingleFile) != names.end()) names = {kSingleFile};
  if (names.empty()) {
    return absl::NotFoundError("there is no model.safetensors; name a directory with *.safetensors files");
  }
  return names;
}

// The names of the files with weights; `map` gets the index, if there is one.
absl::StatusOr<std::vector<std::string>> ListWeightFiles(HfFiles& files, WeightMap* map) {
  BATON_ASSIGN_OR_RETURN(std::vector<std::string> names, FindWeightFiles(files, map));
  if (names.size() <= kMaxHfShards) return names;
  return absl::InvalidArgumentError(absl::StrCat("the weights are in ", names.size(), " files, limit ", kMaxHfShards));
}

class WeightsReader {
 public:
  WeightsReader(const HfConfig& config, HfFiles& files) : config_(config), files_(files), scales_(config.fp8) {}

  absl::StatusOr<HfWeights> Read() {
    BATON_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListWeightFiles(files_, &map_));
    for (const std::string& name : names) BATON_RETURN_IF_ERROR(ReadFile(name));
    for (const auto& [tensor, file] : map_) {
      if (!seen_.contains(tensor)) return Missing(file, tensor);
    }
    const bool has_head = std::any_of(tensors_.begin(), tensors_.end(), [](const auto& t) { return t.name == kHead; });
    if (config_.tied_head == false && !has_head) return Missing("the weights", "lm_head.weight");
    BATON_RETURN_IF_ERROR(scales_.Attach(&tensors_));
    return HfWeights{.tensors = std::move(tensors_), .scales = scales_.TakeValues()};
  }

 private:
  static absl::Status Missing(std::string_view file, std::string_view tensor) {
    return absl::InvalidArgumentError(
        absl::StrCat(ShowText(file), " lacks tensor ", ShowText(tensor), "; fetch the model again"));
  }

  absl::Status ReadFile(const std::string& name) {
    BATON_ASSIGN_OR_RETURN(const std::string_view bytes, files_.Open(name));
    BATON_ASSIGN_OR_RETURN(const std::vector<SafetensorsTensor> tensors, ParseSafetensors(bytes, name));
    for (const SafetensorsTensor& tensor : tensors) {
      const auto mapped = map_.find(tensor.name);
      if (!map_.empty() && (mapped == map_.end() || mapped->second != name)) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": tensor ", ShowText(tensor.name), " is not in ",
                                                       kIndexFile, " or in another file there; fetch the model again"));
      }
      if (!seen_.insert(tensor.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": tensor ", ShowText(tensor.name), " is in another file too; fetch the model again"));
      }
      BATON_RETURN_IF_ERROR(Add(tensor, name));
    }
    return absl::OkStatus();
  }

  bool IsLeftOut(const std::string& name) const { return name.empty() || (name == kHead && config_.tied_head == true); }

  absl::Status Add(const SafetensorsTensor& tensor, std::string_view file) {
    if (const auto companion = FindFp8Companion(tensor.name); config_.fp8.any() && companion.has_value()) {
      BATON_ASSIGN_OR_RETURN(const std::string matrix, EngineTensorName(companion->matrix, config_.model));
      if (!companion->is_scale || IsLeftOut(matrix)) return absl::OkStatus();
      return scales_.Add(matrix, tensor, file);
    }
    BATON_ASSIGN_OR_RETURN(std::string name, EngineTensorName(tensor.name, config_.model));
    if (IsLeftOut(name)) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(const TensorType type, RunningTypeOf(tensor, file));
    const size_t dims = tensor.shape.size();
    if (dims < 1 || dims > 2 || tensor.bytes == 0 || (dims == 1 && type == TensorType::kF8E4M3)) {
      return absl::InvalidArgumentError(absl::StrCat(
          ToAbsl(file), ": tensor ", ShowText(tensor.name), " of type ", tensor.dtype, " is ",
          type == TensorType::kF8E4M3 ? "no matrix" : "neither a vector nor a matrix", "; fetch the model again"));
    }
    tensors_.push_back({.name = std::move(name),
                        .type = type,
                        .rows = dims == 1 ? 1 : tensor.shape[0],
                        .cols = tensor.shape.back(),
                        .data = tensor.data,
                        .bytes = tensor.bytes});
    return absl::OkStatus();
  }

  absl::StatusOr<TensorType> RunningTypeOf(const SafetensorsTensor& tensor, std::string_view file) const {
    const std::optional<TensorType> type = TypeOf(tensor.dtype);
    if (!type.has_value()) {
      return absl::UnimplementedError(absl::StrCat(ToAbsl(file), ": tensor ", ShowText(tensor.name), " is of type ",
                                                   tensor.dtype, ": Baton runs F32, F16, BF16 and F8_E4M3"));
    }
    if (type == TensorType::kF8E4M3 && !config_.fp8.any()) {
      return absl::UnimplementedError(absl::StrCat(ToAbsl(file), ": tensor ", ShowText(tensor.name), " is of type ",
                                                   tensor.dtype,
                                                   ", and config.json has no quantization_config that "
                                                   "says how it is scaled; use another model"));
    }
    return *type;
  }

  const HfConfig& config_;
  HfFiles& files_;
  WeightMap map_;
  absl::flat_hash_set<std::string> seen_;
  std::vector<TensorView> tensors_;
  Fp8Scales scales_;
};

}  // namespace

absl::StatusOr<HfWeights> ReadHfWeights(const HfConfig& config, HfFiles& files) {
  return WeightsReader(config, files).Read();
}

absl::StatusOr<HfStoredWeights> ListHfWeights(HfFiles& files) {
  WeightMap map;
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListWeightFiles(files, &map));
  HfStoredWeights stored;
  for (const std::string& name : names) {
    BATON_ASSIGN_OR_RETURN(const std::string_view bytes, files.Open(name));
    stored.file_bytes += bytes.size();
    BATON_ASSIGN_OR_RETURN(std::vector<SafetensorsTensor> tensors, ParseSafetensors(bytes, name));
    for (SafetensorsTensor& tensor : tensors) {
      stored.tensors.push_back({.name = std::move(tensor.name),
                                .type = std::move(tensor.dtype),
                                .shape = std::move(tensor.shape),
                                .bytes = tensor.bytes});
    }
  }
  return stored;
}

}  // namespace baton::modelfile
