// Typed and bounded values of one architecture's metadata in a GGUF file.
#ifndef BATON_MODELFILE_GGUF_CONFIG_READER_H_
#define BATON_MODELFILE_GGUF_CONFIG_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "modelfile/gguf_document.h"

namespace baton::modelfile {

// INVALID_ARGUMENT: the metadata contradicts itself or its limits. UNIMPLEMENTED: it asks for what Baton does not run.
absl::Status Refused(std::string_view what);
absl::Status NotBuilt(std::string_view what);

// Keys are given without the architecture: "block_count" is "llama.block_count" of a llama file.
class GgufConfigReader {
 public:
  struct FloatRange {
    double min = 0;
    double max = 0;
  };

  GgufConfigReader(const GgufDocument& document, std::string_view architecture)
      : document_(document), prefix_(std::string(architecture) + ".") {}

  const GgufDocument& document() const { return document_; }
  std::string Key(std::string_view key) const { return prefix_ + std::string(key); }

  // None when the key is absent; INVALID_ARGUMENT outside 1 to `max`.
  absl::StatusOr<std::optional<int32_t>> Optional(std::string_view key, int32_t max) const;
  absl::StatusOr<int32_t> Required(std::string_view key, int32_t max) const;
  absl::StatusOr<std::optional<double>> OptionalFloat(std::string_view key, FloatRange range) const;

  // UNIMPLEMENTED unless the key is absent or 0.
  absl::Status MustBeZero(std::string_view key) const;

 private:
  const GgufDocument& document_;
  const std::string prefix_;
};

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_GGUF_CONFIG_READER_H_
