#include "modelfile/safetensors_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "modelfile/gguf_document.h"
#include "modelfile/json_reader.h"
#include "modelfile/limits.h"

namespace baton::modelfile {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

struct Dtype {
  std::string_view name;
  size_t bits;
};
constexpr Dtype kDtypes[] = {
    {"F64", 64}, {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},    {"I32", 32},    {"I16", 16},
    {"I8", 8},   {"U64", 64},    {"U32", 32},    {"U16", 16},    {"U8", 8},      {"BOOL", 8},    {"C64", 64},
    {"F4", 4},   {"F6_E2M3", 6}, {"F8_E8M0", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F6_E3M2", 6},
};

absl::Status Damaged(std::string_view file, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(file), ": damaged safetensors file: ", ToAbsl(what), "; fetch the file again"));
}

// Bytes of this many elements. None when they exceed the largest file or do not end at a byte.
std::optional<uint64_t> BytesOf(const std::vector<int64_t>& shape, size_t bits) {
  uint64_t total_bits = bits;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(total_bits, static_cast<uint64_t>(dim), &total_bits)) return std::nullopt;
  }
  if (total_bits % 8 != 0 || total_bits / 8 > kMaxFileBytes) return std::nullopt;
  return total_bits / 8;
}

// A non-negative integer; none for anything else.
std::optional<uint64_t> Unsigned(const Json& value) {
  if (const auto* number = value.get_ptr<const Json::number_unsigned_t*>()) return *number;
  return std::nullopt;
}

class HeaderReader {
 public:
  HeaderReader(std::string_view file, std::string_view payload) : file_(file), payload_(payload) {}

  absl::StatusOr<SafetensorsTensor> Read(const std::string& name, const Json& entry) const {
    if (name.empty() || name.size() > kMaxHfTensorNameBytes) {
      return Damaged(
          file_, absl::StrCat("a tensor's name has ", name.size(), " bytes, must have 1 to ", kMaxHfTensorNameBytes));
    }
    SafetensorsTensor tensor;
    tensor.name = name;
    const JsonFields fields(entry, file_);
    const Json* dtype = fields.Find("dtype");
    const Dtype* known =
        dtype != nullptr && dtype->is_string() ? FindDtype(*dtype->get_ptr<const std::string*>()) : nullptr;
    if (known == nullptr) return Bad(name, "dtype is none of the format's");
    tensor.dtype = std::string(known->name);
    BATON_RETURN_IF_ERROR(ReadShape(name, fields.Find("shape"), &tensor.shape));
    const Json* offsets = fields.Find("data_offsets");
    if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2)
      return Bad(name, "data_offsets are not two");
    const std::optional<uint64_t> begin = Unsigned((*offsets)[0]);
    const std::optional<uint64_t> end = Unsigned((*offsets)[1]);
    if (!begin.has_value() || !end.has_value() || *begin > *end || *end > payload_.size()) {
      return Bad(name, absl::StrCat("data_offsets are not an interval within ", payload_.size(), " bytes"));
    }
    if (BytesOf(tensor.shape, known->bits) != *end - *begin) {
      return Bad(name, absl::StrCat(*end - *begin, " bytes are not what its type and shape need"));
    }
    tensor.data = reinterpret_cast<const uint8_t*>(payload_.data()) + *begin;
    tensor.bytes = *end - *begin;
    return tensor;
  }

 private:
  static const Dtype* FindDtype(std::string_view name) {
    const auto* it =
        std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) { return d.name == name; });
    return it == std::end(kDtypes) ? nullptr : it;
  }

  absl::Status Bad(std::string_view name, std::string_view what) const {
    return Damaged(file_, absl::StrCat("tensor ", ShowText(name), ": ", ToAbsl(what)));
  }

  absl::Status ReadShape(std::string_view name, const Json* shape, std::vector<int64_t>* out) const {
    if (shape == nullptr || !shape->is_array() || shape->size() > kMaxHfTensorDims) {
      return Bad(name, absl::StrCat("shape is not an array of at most ", kMaxHfTensorDims, " sizes"));
    }
    for (const Json& dim : *shape) {
      const std::optional<uint64_t> size = Unsigned(dim);
      if (!size.has_value() || *size > kMaxTensorDim) {
        return Bad(name, absl::StrCat("a size is not an integer from 0 to ", kMaxTensorDim));
      }
      out->push_back(static_cast<int64_t>(*size));
    }
    return absl::OkStatus();
  }

  const std::string_view file_;
  const std::string_view payload_;
};

// Sorts the tensors by place and checks that every byte belongs to exactly one.
absl::Status CheckCoverage(std::string_view file, std::string_view payload, std::vector<SafetensorsTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::make_pair(a.data, a.bytes) < std::make_pair(b.data, b.bytes);
  });
  const auto* next = reinterpret_cast<const uint8_t*>(payload.data());
  for (const SafetensorsTensor& tensor : *tensors) {
    if (tensor.data != next) {
      return Damaged(file,
                     absl::StrCat("tensor ", ShowText(tensor.name),
                                  tensor.data < next ? " overlaps" : " leaves a hole after", " the one before it"));
    }
    next += tensor.bytes;
  }
  const auto used = static_cast<size_t>(next - reinterpret_cast<const uint8_t*>(payload.data()));
  if (used != payload.size()) {
    return Damaged(file, absl::StrCat("the last ", payload.size() - used, " bytes belong to no tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::string_view data, std::string_view file) {
  uint64_t header_bytes = 0;
  if (data.size() < sizeof(header_bytes)) return Damaged(file, absl::StrCat("it has ", data.size(), " bytes"));
  std::memcpy(&header_bytes, data.data(), sizeof(header_bytes));
  data.remove_prefix(sizeof(header_bytes));
  if (header_bytes > data.size()) {
    return Damaged(file, absl::StrCat("its header has ", header_bytes, " bytes, the file only ", data.size(), " more"));
  }
  BATON_ASSIGN_OR_RETURN(const Json header,
                         ParseJsonObject(data.substr(0, header_bytes), file, kMaxSafetensorsHeaderBytes));
  if (header.size() > kMaxTensors) {
    return Damaged(file, absl::StrCat("it has ", header.size(), " tensors, limit ", kMaxTensors));
  }
  const std::string_view payload = data.substr(header_bytes);
  const HeaderReader reader(file, payload);
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    BATON_ASSIGN_OR_RETURN(SafetensorsTensor tensor, reader.Read(name, entry));
    tensors.push_back(std::move(tensor));
  }
  BATON_RETURN_IF_ERROR(CheckCoverage(file, payload, &tensors));
  return tensors;
}

}  // namespace baton::modelfile
