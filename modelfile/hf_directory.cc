#include "modelfile/hf_directory.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/hf_config.h"
#include "modelfile/hf_tokenizer.h"
#include "modelfile/hf_weights.h"
#include "modelfile/json_reader.h"
#include "modelfile/limits.h"
#include "modelfile/mapped_file.h"

namespace baton::modelfile {
namespace {

class DirectoryFiles final : public HfFiles {
 public:
  explicit DirectoryFiles(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<std::string_view> Open(const std::string& name) override {
    absl::StatusOr<MappedFile> file = MappedFile::Open(absl::StrCat(path_, "/", name));
    if (!file.ok()) return absl::Status(file.status().code(), absl::StrCat(name, ": ", file.status().message()));
    return files_.insert_or_assign(name, *std::move(file)).first->second.text();
  }

  std::vector<std::string> WeightFiles() override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".safetensors") names.push_back(it->path().filename().string());
      if (names.size() > kMaxHfShards) break;
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  const std::string path_;
  std::map<std::string, MappedFile> files_;
};

class HfModelFile final : public ModelFile {
 public:
  explicit HfModelFile(std::unique_ptr<HfFiles> files) : files_(std::move(files)) {}

  absl::Status Read(const std::string& name) {
    BATON_ASSIGN_OR_RETURN(const Json json, OpenHfConfig(*files_));
    BATON_ASSIGN_OR_RETURN(HfConfig config, ReadHfConfig(json));
    config.model.name = name;
    BATON_ASSIGN_OR_RETURN(const std::optional<Json> generation_json,
                           ReadOptionalHfJson(*files_, "generation_config.json", kMaxHfJsonBytes));
    if (generation_json.has_value()) {
      BATON_ASSIGN_OR_RETURN(HfGeneration generation, ReadHfGeneration(*generation_json));
      sampling_defaults_ = generation.sampling;
      if (!generation.eos_ids.empty()) config.eos_ids = std::move(generation.eos_ids);
    }
    BATON_RETURN_IF_ERROR(ReadTokenizer(config));
    BATON_ASSIGN_OR_RETURN(HfWeights weights, ReadHfWeights(config, *files_));
    tensors_ = std::move(weights.tensors);
    scales_ = std::move(weights.scales);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!index_.emplace(tensors_[i].name, i).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("two tensors are ", tensors_[i].name, "; fetch the model again"));
      }
    }
    config_ = std::move(config.model);
    return absl::OkStatus();
  }

  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  const SamplingDefaults& sampling_defaults() const override { return sampling_defaults_; }
  const std::vector<TensorView>& tensors() const override { return tensors_; }
  const TensorView* Find(std::string_view name) const override {
    const auto it = index_.find(ToAbsl(name));
    return it == index_.end() ? nullptr : &tensors_[it->second];
  }
  Digest128 WeightsDigest() const override {
    std::call_once(digest_once_, [this] { digest_ = DigestOfTensors(tensors_); });
    return digest_;
  }

 private:
  absl::Status ReadTokenizer(const HfConfig& config) {
    BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, OpenOptionalHfFile(*files_, "tokenizer.json"));
    tokenizer_.source = "tokenizer.json";
    if (!text.has_value()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(const HfTokenizerJson json, ParseHfTokenizer(*text));
    BATON_ASSIGN_OR_RETURN(tokenizer_, ReadHfTokenizer(json, config.model.vocab_size));
    if (tokenizer_.bos_id < 0 && config.bos_id < config.model.vocab_size) tokenizer_.bos_id = config.bos_id;
    BATON_ASSIGN_OR_RETURN(const std::optional<Json> settings,
                           ReadOptionalHfJson(*files_, "tokenizer_config.json", kMaxHfJsonBytes));
    if (settings.has_value()) BATON_RETURN_IF_ERROR(ReadHfTokenizerConfig(*settings, &tokenizer_));
    BATON_ASSIGN_OR_RETURN(const std::optional<std::string_view> chat,
                           OpenOptionalHfFile(*files_, "chat_template.jinja"));
    if (chat.has_value()) tokenizer_.chat_template = std::string(*chat);
    if (tokenizer_.chat_template.size() > kMaxChatTemplateBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the chat template has ", tokenizer_.chat_template.size(),
                                                     " bytes, limit ", kMaxChatTemplateBytes));
    }
    return SetEndTokens(config);
  }

  // The tokenizer's EOS comes first, then the ids that end generation by the configuration.
  absl::Status SetEndTokens(const HfConfig& config) {
    std::vector<int32_t>& ids = tokenizer_.eos_ids;
    if (tokenizer_.eos_id >= 0) ids.push_back(tokenizer_.eos_id);
    for (const int32_t id : config.eos_ids) {
      if (id >= config.model.vocab_size) {
        return absl::InvalidArgumentError(absl::StrCat("eos_token_id ", id, " is not in the vocabulary of ",
                                                       config.model.vocab_size, " tokens; correct the configuration"));
      }
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    if (tokenizer_.eos_id < 0 && !ids.empty()) tokenizer_.eos_id = ids[0];
    return absl::OkStatus();
  }

  const std::unique_ptr<HfFiles> files_;
  ModelConfig config_;
  TokenizerSpec tokenizer_;
  SamplingDefaults sampling_defaults_;
  std::vector<TensorView> tensors_;
  std::vector<std::vector<float>> scales_;
  absl::flat_hash_map<std::string, size_t> index_;
  mutable std::once_flag digest_once_;
  mutable Digest128 digest_;  // written once, under digest_once_
};

}  // namespace

std::unique_ptr<HfFiles> OpenHfFiles(const std::string& path) { return std::make_unique<DirectoryFiles>(path); }

absl::StatusOr<std::unique_ptr<ModelFile>> OpenHfDirectory(const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();
  return ParseHfModel(OpenHfFiles(path), folder.filename().string());
}

absl::StatusOr<std::unique_ptr<ModelFile>> ParseHfModel(std::unique_ptr<HfFiles> files, const std::string& name) {
  auto model = std::make_unique<HfModelFile>(std::move(files));
  BATON_RETURN_IF_ERROR(model->Read(name));
  return model;
}

}  // namespace baton::modelfile
