#include "modelfile/model_description.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/hf_config.h"
#include "modelfile/hf_directory.h"
#include "modelfile/hf_weights.h"
#include "modelfile/json_reader.h"
#include "modelfile/limits.h"
#include "modelfile/mapped_file.h"

namespace baton::modelfile {
namespace {

// How each kind of file names a size of the model. GGUF's keys follow the name of the architecture.
struct SizeNames {
  std::string_view name;
  std::string_view gguf;
  std::string_view huggingface;
};
constexpr SizeNames kSizes[] = {
    {"hidden_size", "embedding_length", "hidden_size"},
    {"layers", "block_count", "num_hidden_layers"},
    {"heads", "attention.head_count", "num_attention_heads"},
    {"kv_heads", "attention.head_count_kv", "num_key_value_heads"},
    {"head_dim", "attention.key_length", "head_dim"},
    {"ffn_size", "feed_forward_length", "intermediate_size"},
    {"vocab_size", "vocab_size", "vocab_size"},
    {"context_length", "context_length", "max_position_embeddings"},
};

void AddJsonMetadata(std::string_view prefix, const Json& json, std::vector<MetadataEntry>* metadata) {
  for (const auto& [key, value] : json.items()) {
    if (metadata->size() >= kMaxMetadataEntries) return;
    metadata->push_back({absl::StrCat(ToAbsl(prefix), ShowText(key)), value.type_name(), ShowJson(value)});
  }
}

absl::StatusOr<ModelDescription> DescribeWithoutPath(const std::string& path) {
  if (std::error_code error; std::filesystem::is_directory(path, error)) return DescribeHf(*OpenHfFiles(path));
  BATON_ASSIGN_OR_RETURN(const MappedFile mapping, MappedFile::Open(path));
  return DescribeGguf(mapping.data(), mapping.bytes());
}

}  // namespace

// A value of another type than expected is no size; the metadata shows it.
absl::StatusOr<ModelDescription> DescribeGguf(const uint8_t* data, size_t bytes) {
  BATON_ASSIGN_OR_RETURN(const GgufDocument document, GgufDocument::ParseToDescribe(data, bytes));
  ModelDescription description;
  description.format = "GGUF v3";
  description.file_bytes = bytes;
  if (const auto name = document.String("general.architecture"); name.ok() && name->has_value()) {
    description.architecture = ShowText(**name);
    for (const SizeNames& size : kSizes) {
      const auto value = document.Integer(absl::StrCat(ToAbsl(**name), ".", ToAbsl(size.gguf)));
      if (value.ok() && value->has_value()) description.sizes.push_back({size.name, **value});
    }
  }
  for (const GgufEntry& entry : document.entries()) {
    description.metadata.push_back({ShowText(entry.key), ShowGgufType(entry.value), ShowGgufValue(entry.value)});
  }
  description.tensors = document.stored();
  return description;
}

absl::StatusOr<ModelDescription> DescribeHf(HfFiles& files) {
  ModelDescription description;
  description.format = "Hugging Face directory";
  BATON_ASSIGN_OR_RETURN(const Json config, OpenHfConfig(files));
  const JsonFields fields(config, "config.json");
  if (const auto type = fields.String("model_type"); type.ok() && type->has_value()) {
    description.architecture = ShowText(**type);
  }
  for (const SizeNames& size : kSizes) {
    const auto value = fields.Integer(size.huggingface);
    if (value.ok() && value->has_value()) description.sizes.push_back({size.name, **value});
  }
  AddJsonMetadata("config.", config, &description.metadata);
  BATON_ASSIGN_OR_RETURN(const std::optional<Json> generation,
                         ReadOptionalHfJson(files, "generation_config.json", kMaxHfJsonBytes));
  if (generation.has_value()) AddJsonMetadata("generation.", *generation, &description.metadata);
  BATON_ASSIGN_OR_RETURN(HfStoredWeights weights, ListHfWeights(files));
  description.file_bytes = weights.file_bytes;
  description.tensors = std::move(weights.tensors);
  return description;
}

absl::StatusOr<ModelDescription> DescribeModelFile(const std::string& path) {
  absl::StatusOr<ModelDescription> description = DescribeWithoutPath(path);
  if (description.ok()) return description;
  return absl::Status(description.status().code(), absl::StrCat(path, ": ", description.status().message()));
}

}  // namespace baton::modelfile
