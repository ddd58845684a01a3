// Shared by the tests of this folder: the smallest llama file, whole or with one thing changed.
#ifndef BATON_MODELFILE_TESTING_SMALLEST_LLAMA_H_
#define BATON_MODELFILE_TESTING_SMALLEST_LLAMA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "modelfile/model_file.h"
#include "modelfile/testing/error_text.h"
#include "modelfile/testing/tiny_llama.h"

namespace baton::modelfile {

inline absl::StatusOr<std::unique_ptr<ModelFile>> Parse(const std::vector<uint8_t>& bytes) {
  return ParseGguf(bytes.data(), bytes.size());
}

inline std::string ErrorOf(const std::vector<uint8_t>& bytes, absl::StatusCode code = kInvalid) {
  return ErrorText(Parse(bytes), code);
}

inline TinyLlamaOptions Smallest(std::vector<std::string> leave_out = {}) {
  return {.layers = 1,
          .hidden_size = 32,
          .heads = 2,
          .kv_heads = 1,
          .ffn_size = 32,
          .vocab_size = 8,
          .leave_out = std::move(leave_out)};
}

inline std::vector<uint8_t> Without(const std::string& key) { return TinyLlama(Smallest({key})); }
inline std::vector<uint8_t> WithU32(const std::string& key, uint32_t value) {
  return TinyLlamaWriter(Smallest({key})).AddU32(key, value).Finish();
}
inline std::vector<uint8_t> WithF32(const std::string& key, float value) {
  return TinyLlamaWriter(Smallest({key})).AddF32(key, value).Finish();
}
inline std::vector<uint8_t> WithString(const std::string& key, const std::string& value) {
  return TinyLlamaWriter(Smallest({key})).AddString(key, value).Finish();
}

}  // namespace baton::modelfile

#endif  // BATON_MODELFILE_TESTING_SMALLEST_LLAMA_H_
