#include "modelfile/model_file.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_config.h"
#include "modelfile/gguf_document.h"
#include "modelfile/gguf_tokenizer.h"
#include "modelfile/hf_directory.h"
#include "modelfile/mapped_file.h"

namespace baton::modelfile {
namespace {

class GgufModelFile final : public ModelFile {
 public:
  GgufModelFile(MappedFile mapping, GgufDocument document)
      : mapping_(std::move(mapping)), document_(std::move(document)) {}

  absl::Status Interpret() {
    BATON_ASSIGN_OR_RETURN(config_, ReadGgufConfig(document_));
    BATON_RETURN_IF_ERROR(CheckGgufTensorNames(document_, config_));
    BATON_ASSIGN_OR_RETURN(tokenizer_, ReadGgufTokenizer(document_));
    return absl::OkStatus();
  }

  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  const std::vector<TensorView>& tensors() const override { return document_.tensors(); }
  const TensorView* Find(std::string_view name) const override { return document_.FindTensor(name); }

  Digest128 WeightsDigest() const override {
    std::call_once(digest_once_, [this] { digest_ = DigestOfTensors(tensors()); });
    return digest_;
  }

 private:
  const MappedFile mapping_;
  const GgufDocument document_;
  ModelConfig config_;
  TokenizerSpec tokenizer_;
  mutable std::once_flag digest_once_;
  mutable Digest128 digest_;  // written once, under digest_once_
};

absl::StatusOr<std::unique_ptr<ModelFile>> Load(MappedFile mapping, const uint8_t* data, size_t bytes) {
  BATON_ASSIGN_OR_RETURN(GgufDocument document, GgufDocument::Parse(data, bytes));
  auto file = std::make_unique<GgufModelFile>(std::move(mapping), std::move(document));
  BATON_RETURN_IF_ERROR(file->Interpret());
  return file;
}

absl::StatusOr<std::unique_ptr<ModelFile>> OpenWithoutPath(const std::string& path) {
  if (std::error_code error; std::filesystem::is_directory(path, error)) return OpenHfDirectory(path);
  BATON_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  const uint8_t* const data = mapping.data();
  const size_t bytes = mapping.bytes();
  return Load(std::move(mapping), data, bytes);
}

}  // namespace

const SamplingDefaults& ModelFile::sampling_defaults() const {
  static const SamplingDefaults kNone;
  return kNone;
}

// Tensors are digested in the order of their names, so that their order in the file does not matter.
Digest128 DigestOfTensors(const std::vector<TensorView>& tensors) {
  std::vector<const TensorView*> sorted;
  sorted.reserve(tensors.size());
  for (const TensorView& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  Digest128 digest;
  for (const TensorView* tensor : sorted) {
    std::string header = absl::StrCat(tensor->name.size(), ":", tensor->name, " ", ToAbsl(TensorTypeName(tensor->type)),
                                      " ", tensor->rows, "x", tensor->cols);
    const BlockScales& scales = tensor->scales;
    if (scales.values != nullptr) absl::StrAppend(&header, " scales ", scales.rows, "x", scales.cols);
    digest = DigestChain(digest, header.data(), header.size());
    digest = DigestChain(digest, tensor->data, tensor->bytes);
    if (scales.values == nullptr) continue;
    const int64_t count = (tensor->rows + scales.rows - 1) / scales.rows * tensor->ScalesOfRow();
    digest = DigestChain(digest, scales.values, static_cast<size_t>(count) * sizeof(float));
  }
  return digest;
}

absl::StatusOr<std::unique_ptr<ModelFile>> OpenModelFile(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ModelFile>> file = OpenWithoutPath(path);
  if (file.ok()) return file;
  return absl::Status(file.status().code(), absl::StrCat(path, ": ", file.status().message()));
}

absl::StatusOr<std::unique_ptr<ModelFile>> ParseGguf(const uint8_t* data, size_t bytes) {
  return Load(MappedFile(), data, bytes);
}

}  // namespace baton::modelfile
