#include "modelfile/testing/gguf_writer.h"

#include <utility>

namespace baton::modelfile {
namespace {

void PadTo(std::vector<uint8_t>* out, uint32_t alignment) {
  out->resize((out->size() + alignment - 1) / alignment * alignment);
}

}  // namespace

void AppendGgufString(std::vector<uint8_t>* out, std::string_view text) {
  AppendLittleEndian<uint64_t>(out, text.size());
  out->insert(out->end(), text.begin(), text.end());
}

void GgufWriter::AddKey(std::string_view key, GgufType type) {
  ++entries_;
  AppendGgufString(&metadata_, key);
  AppendLittleEndian(&metadata_, static_cast<uint32_t>(type));
}

GgufWriter& GgufWriter::AddString(std::string_view key, std::string_view value) {
  AddKey(key, GgufType::kString);
  AppendGgufString(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::AddU32(std::string_view key, uint32_t value) {
  AddKey(key, GgufType::kU32);
  AppendLittleEndian(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::AddF32(std::string_view key, float value) {
  AddKey(key, GgufType::kF32);
  AppendLittleEndian(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::AddBool(std::string_view key, bool value) {
  AddKey(key, GgufType::kBool);
  AppendLittleEndian<uint8_t>(&metadata_, value ? 1 : 0);
  return *this;
}

GgufWriter& GgufWriter::AddStringArray(std::string_view key, absl::Span<const std::string> values) {
  AddKey(key, GgufType::kArray);
  AppendLittleEndian(&metadata_, static_cast<uint32_t>(GgufType::kString));
  AppendLittleEndian<uint64_t>(&metadata_, values.size());
  for (const std::string& value : values) AppendGgufString(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::AddI32Array(std::string_view key, absl::Span<const int32_t> values) {
  AddKey(key, GgufType::kArray);
  AppendLittleEndian(&metadata_, static_cast<uint32_t>(GgufType::kI32));
  AppendLittleEndian<uint64_t>(&metadata_, values.size());
  for (const int32_t value : values) AppendLittleEndian(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::AddF32Array(std::string_view key, absl::Span<const float> values) {
  AddKey(key, GgufType::kArray);
  AppendLittleEndian(&metadata_, static_cast<uint32_t>(GgufType::kF32));
  AppendLittleEndian<uint64_t>(&metadata_, values.size());
  for (const float value : values) AppendLittleEndian(&metadata_, value);
  return *this;
}

GgufWriter& GgufWriter::AddRaw(std::string_view key, uint32_t type, absl::Span<const uint8_t> payload) {
  AddKey(key, static_cast<GgufType>(type));
  metadata_.insert(metadata_.end(), payload.begin(), payload.end());
  return *this;
}

GgufWriter& GgufWriter::AddTensor(GgufTensorSpec tensor) {
  PadTo(&tensor_data_, alignment_);
  GgufRawTensor info = {.name = std::move(tensor.name),
                        .dims = {static_cast<uint64_t>(tensor.cols)},
                        .type = GgufTensorTypeId(tensor.type),
                        .offset = tensor_data_.size()};
  if (tensor.rows != 1) info.dims.push_back(static_cast<uint64_t>(tensor.rows));
  infos_.push_back(std::move(info));
  tensor_data_.insert(tensor_data_.end(), tensor.bytes.begin(), tensor.bytes.end());
  return *this;
}

GgufWriter& GgufWriter::AddF32Tensor(std::string_view name, int64_t rows, int64_t cols,
                                     absl::Span<const float> values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return AddTensor({.name = std::string(name),
                    .type = TensorType::kF32,
                    .rows = rows,
                    .cols = cols,
                    .bytes = std::vector<uint8_t>(bytes, bytes + values.size() * sizeof(float))});
}

GgufWriter& GgufWriter::AddRawTensor(GgufRawTensor tensor) {
  infos_.push_back(std::move(tensor));
  return *this;
}

GgufWriter& GgufWriter::SetAlignment(uint32_t alignment) {
  alignment_ = alignment;
  return *this;
}

std::vector<uint8_t> GgufWriter::Finish() const {
  std::vector<uint8_t> out(kGgufMagic.begin(), kGgufMagic.end());
  AppendLittleEndian(&out, kGgufVersion);
  AppendLittleEndian<uint64_t>(&out, infos_.size());
  AppendLittleEndian(&out, entries_);
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  for (const GgufRawTensor& info : infos_) {
    AppendGgufString(&out, info.name);
    AppendLittleEndian(&out, static_cast<uint32_t>(info.dims.size()));
    for (const uint64_t dim : info.dims) AppendLittleEndian(&out, dim);
    AppendLittleEndian(&out, info.type);
    AppendLittleEndian(&out, info.offset);
  }
  PadTo(&out, alignment_);
  out.insert(out.end(), tensor_data_.begin(), tensor_data_.end());
  return out;
}

}  // namespace baton::modelfile
