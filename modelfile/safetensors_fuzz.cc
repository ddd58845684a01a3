// libFuzzer over whole safetensors files. Whatever the bytes are, opening gives tensors or one error, and the tensors
// lie one after the other within the file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "modelfile/safetensors_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace baton::modelfile;  // NOLINT: one function
  const auto tensors = ParseSafetensors({reinterpret_cast<const char*>(data), bytes}, "w.safetensors");
  if (!tensors.ok()) {
    BATON_CHECK(tensors.status().message().find('\n') == std::string_view::npos) << tensors.status();
    return 0;
  }
  const uint8_t* next = nullptr;
  size_t total = 0;
  for (const SafetensorsTensor& tensor : *tensors) {
    BATON_CHECK(next == nullptr || tensor.data == next);
    next = tensor.data + tensor.bytes;
    total += tensor.bytes;
  }
  BATON_CHECK(total < bytes);
  BATON_CHECK(next == nullptr || next == data + bytes);
  return 0;
}
