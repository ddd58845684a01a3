#include "modelfile/model_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/limits.h"
#include "modelfile/model_config.h"

namespace baton::modelfile {
namespace {

// The bytes of a file, mapped for reading. Whoever shortens the file while it is mapped ends this process (SIGBUS).
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (address_ != nullptr) munmap(address_, bytes_);
  }

  const uint8_t* data() const { return static_cast<const uint8_t*>(address_); }
  size_t bytes() const { return bytes_; }

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

class GgufModelFile final : public ModelFile {
 public:
  GgufModelFile(Mapping mapping, GgufDocument document) : mapping_(std::move(mapping)), document_(std::move(document)) {
    for (const GgufEntry& entry : document_.entries()) {
      metadata_.push_back({ShowText(entry.key), ShowGgufType(entry.value), ShowGgufValue(entry.value)});
    }
  }

  absl::Status Interpret() {
    BATON_ASSIGN_OR_RETURN(config_, ReadModelConfig(document_));
    BATON_RETURN_IF_ERROR(CheckTensorNames(document_, config_));
    BATON_ASSIGN_OR_RETURN(tokenizer_, ReadTokenizerSpec(document_));
    return absl::OkStatus();
  }

  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  const std::vector<MetadataEntry>& metadata() const override { return metadata_; }
  const std::vector<TensorView>& tensors() const override { return document_.tensors(); }
  const TensorView* Find(std::string_view name) const override { return document_.FindTensor(name); }

  Digest128 WeightsDigest() const override {
    std::call_once(digest_once_, [this] { digest_ = ComputeDigest(); });
    return digest_;
  }

 private:
  // In the order of names, so that two files with the same tensors in another order are equal.
  Digest128 ComputeDigest() const {
    std::vector<const TensorView*> sorted;
    for (const TensorView& tensor : tensors()) sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    Digest128 digest;
    for (const TensorView* tensor : sorted) {
      const std::string header =
          absl::StrCat(tensor->name.size(), ":", tensor->name, " ", ToAbsl(TensorTypeName(tensor->type)), " ",
                       tensor->rows, "x", tensor->cols);
      digest = DigestChain(digest, header.data(), header.size());
      digest = DigestChain(digest, tensor->data, tensor->bytes);
    }
    return digest;
  }

  const Mapping mapping_;
  const GgufDocument document_;
  std::vector<MetadataEntry> metadata_;
  ModelConfig config_;
  TokenizerSpec tokenizer_;
  mutable std::once_flag digest_once_;
  mutable Digest128 digest_;  // written once, under digest_once_
};

absl::StatusOr<std::unique_ptr<ModelFile>> Load(Mapping mapping, const uint8_t* data, size_t bytes) {
  BATON_ASSIGN_OR_RETURN(GgufDocument document, GgufDocument::Parse(data, bytes));
  auto file = std::make_unique<GgufModelFile>(std::move(mapping), std::move(document));
  BATON_RETURN_IF_ERROR(file->Interpret());
  return file;
}

absl::Status ErrnoStatus(std::string_view doing, int error) {
  const std::string message = absl::StrCat("cannot ", ToAbsl(doing), ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(message, "; name an existing file or a model of the store"));
  }
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(absl::StrCat(message, "; make the file readable"));
  }
  return absl::UnavailableError(absl::StrCat(message, "; check the disk and try again"));
}

absl::StatusOr<Mapping> MapOpenFile(int fd) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return ErrnoStatus("read the file's size", errno);
  if (S_ISDIR(facts.st_mode)) {
    return absl::UnimplementedError("is a directory: Baton reads single GGUF files; name a .gguf file");
  }
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError("is not a regular file; name a .gguf file");
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  if (bytes > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", bytes, " bytes, limit ", kMaxFileBytes));
  }
  if (bytes == 0) return Mapping();
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return ErrnoStatus("map the file into memory", errno);
  return Mapping(address, bytes);
}

absl::StatusOr<std::unique_ptr<ModelFile>> OpenWithoutPath(const std::string& path) {
  // O_NONBLOCK: opening a pipe returns at once and is refused as no regular file.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus("open the model file", errno);
  absl::StatusOr<Mapping> mapping = MapOpenFile(fd);
  close(fd);
  if (!mapping.ok()) return std::move(mapping).status();
  const uint8_t* const data = mapping->data();
  const size_t bytes = mapping->bytes();
  return Load(*std::move(mapping), data, bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFile>> OpenModelFile(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ModelFile>> file = OpenWithoutPath(path);
  if (file.ok()) return file;
  return absl::Status(file.status().code(), absl::StrCat(path, ": ", file.status().message()));
}

absl::StatusOr<std::unique_ptr<ModelFile>> ParseGguf(const uint8_t* data, size_t bytes) {
  return Load(Mapping(), data, bytes);
}

}  // namespace baton::modelfile
